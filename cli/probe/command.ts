/**
 * `cni probe`: tests whether one container can reach another.
 *
 * @module
 */

import type { Output } from "../../base/command_line/command.ts";
import { refuse } from "../../base/command_line/usage_error.ts";
import { ifPossible } from "../../base/files/io.ts";
import { Ip } from "../../net/ip.ts";
import { NodeReader, type NodeReaderOptions } from "../node/node_reader.ts";
import { report } from "./pod.ts";
import type { CniCall } from "../flags.ts";
import { readDirectories } from "../node/network.ts";
import { Endpoints, type ProbeEndpoint } from "./endpoint.ts";
import { probeAll } from "./run.ts";
import { listNamedProbes, type Wanted } from "./targets.ts";

/** Pings from A to B and back, and connects from A to B if a port is given. */
export async function probe(
  call: CniCall,
  replaced: Pick<NodeReaderOptions, "hostNetns" | "proc"> = {},
): Promise<Output> {
  const [a = "", b = "", portText] = call.args;
  const port = portText === undefined ? undefined : readPort(call, portText);
  const directories = readDirectories(call);
  const { env, signal } = call;
  using node = new NodeReader({ directories, env, signal, ...replaced });
  using endpoints = new Endpoints(node);
  if (ifPossible(() => Ip.parse(a)) !== undefined) {
    throw new Error(`"${a}" is an address: probe from a container`);
  }
  const from = endpoints.addNamed(a);
  const address = ifPossible(() => Ip.parse(b));
  const to = address === undefined ? endpoints.addNamed(b) : [];
  const wanted = from.flatMap((subject) =>
    address === undefined
      ? to.flatMap((peer) => listPair(subject, peer, port))
      : listTo(subject, undefined, b, address, port)
  );
  if (wanted.length > 0) return report(await probeAll(node, wanted));
  const listAll = (some: readonly ProbeEndpoint[]): string =>
    some.map(({ origin: { source } }) => source).join(", ");
  throw new Error(
    `"${a}" and "${b}" have no address family in common: ` +
      `${listAll(from)} and ${address ?? listAll(to)}`,
  );
}

function readPort(call: CniCall, text: string): number {
  const port = Number(text);
  if (/^\d{1,5}$/.test(text) && port >= 1 && port <= 65535) return port;
  throw refuse(call.command, `PORT must be 1 to 65535, not "${text}"`);
}

/** Lists probes between two addresses, in both directions. */
function listPair(
  subject: ProbeEndpoint,
  peer: ProbeEndpoint,
  port: number | undefined,
): Wanted[] {
  const [one, other] = [subject, peer].map(({ origin }) => origin);
  if (one === undefined || other === undefined) return [];
  return [
    ...listTo(subject, peer, other.name, other.source, port),
    ...listTo(peer, subject, one.name, one.source, undefined),
  ];
}

function listTo(
  subject: ProbeEndpoint,
  peer: ProbeEndpoint | undefined,
  to: string,
  address: Ip,
  port: number | undefined,
): Wanted[] {
  if (subject.origin.source.family !== address.family) return [];
  return [undefined, ...port === undefined ? [] : [port]].flatMap((port) =>
    listNamedProbes(subject.origin, subject, to, { address, port })
  ).map((wanted) => ({ ...wanted, peer }));
}
