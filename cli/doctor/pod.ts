/**
 * `cni doctor --pod`: sends packets from a container and to it, and says where they
 * end.
 *
 * @module
 */

import { refuse } from "../../base/command_line/usage_error.ts";
import type { Output } from "../../base/command_line/command.ts";
import type { Style } from "../../base/command_line/style.ts";
import { ifPossible } from "../../base/files/io.ts";
import { Ip } from "../../net/ip.ts";
import type { CniCall } from "../flags.ts";
import { type Endpoint, Endpoints } from "../probe/endpoint.ts";
import { OutsideClient } from "../probe/outside.ts";
import { arrives, explainUnsent, probeAll, type Probed } from "../probe/run.ts";
import { formatProbed, toCauses, toShown } from "../probe/show.ts";
import {
  listHostPorts,
  listNamed,
  listNameServers,
  listWanted,
  originOfNode,
  type Wanted,
} from "../probe/targets.ts";
import { nameAttachment } from "./live.ts";
import type { Node } from "./node.ts";

/** What `--to` names. */
interface Destination {
  readonly address: Ip | undefined;
  readonly port: number | undefined;
}

/**
 * Probes a pod, container, process or namespace.
 *
 * @throws {Error} If it is unknown, or has no address
 */
export async function probePod(node: Node, call: CniCall): Promise<Output> {
  const { flags: { pod = "", from, to } } = call;
  const destination = readDestination(call, to);
  using endpoints = new Endpoints(node);
  using stack = new DisposableStack();
  const own = endpoints.addNamed(pod);
  const hasPorts = own.some(({ start: { attachment } }) =>
    attachment?.capabilityArgs["portMappings"] !== undefined
  );
  const client = from === "outside" || from === undefined && hasPorts
    ? stack.use(await OutsideClient.create(node))
    : undefined;
  const wanted = from !== undefined
    ? listFrom(
      node,
      own,
      destination.port,
      (ip) =>
        from === "node"
          ? originOfNode(node, ip)
          : from === "outside"
          ? client?.origin(ip.family)
          : endpoints.addNamed(from).find(({ start: { address } }) =>
            address.family === ip.family
          ),
    )
    : destination.address !== undefined
    ? own.filter(({ start: { address } }) =>
      address.family === destination.address?.family
    ).flatMap((subject) =>
      listNamed(subject.origin, subject, `${destination.address}`, {
        address: destination.address as Ip,
        port: destination.port,
      }, findOwner(node, endpoints, destination.address))
    )
    : own.flatMap((subject) => [
      ...listWanted(
        node,
        subject,
        findPeer(node, endpoints, subject),
        listNameServers(node, subject, node.resolvConf),
      ),
      ...client === undefined ? [] : listHostPorts(
        node,
        subject,
        (family) => client.origin(family),
      ),
    ]);
  if (wanted.length === 0) {
    throw new Error(`"${pod}" has nothing to probe: no address family fits`);
  }
  const probed = await probeAll(node, wanted);
  const isWhole = from === undefined && to === undefined;
  for (const subject of isWhole ? own : []) {
    const unsent = await explainUnsent(node, subject);
    if (unsent !== undefined) probed.push(unsent);
  }
  return report(probed);
}

/** Finds the container that has an address. */
function findOwner(
  node: Node,
  endpoints: Endpoints,
  address: Ip | undefined,
): Endpoint | undefined {
  for (const one of node.liveAttachments) {
    const found = ifPossible(() =>
      endpoints.add(one.netns, [one], nameAttachment(one))
    )?.find(({ origin }) => address?.equals(origin.source));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Finds another container of the same network. */
function findPeer(
  node: Node,
  endpoints: Endpoints,
  { network, start }: Endpoint,
): Endpoint | undefined {
  const other = node.liveAttachments.find((one) =>
    one.network === network && one.netns !== start.netns
  );
  if (other === undefined) return undefined;
  return ifPossible(() =>
    endpoints.add(other.netns, [other], nameAttachment(other))
  )?.find(({ start: { address } }) => address.family === start.address.family);
}

/** Lists what others send to a pod. */
function listFrom(
  node: Node,
  own: readonly Endpoint[],
  port: number | undefined,
  find: (ip: Ip) => Endpoint | Wanted["probe"]["from"] | undefined,
): Wanted[] {
  void node;
  return own.flatMap((subject) => {
    const { address: { ip } } = subject.start;
    const found = find(ip);
    if (found === undefined) return [];
    const isEndpoint = "origin" in found;
    const origin = isEndpoint ? found.origin : found;
    return listNamed(origin, subject, subject.origin.name, {
      address: ip,
      port,
    }, isEndpoint ? found : undefined);
  });
}

function readDestination(call: CniCall, text: string | undefined): Destination {
  if (text === undefined) return { address: undefined, port: undefined };
  const whole = ifPossible(() => Ip.parse(text));
  if (whole !== undefined) return { address: whole, port: undefined };
  const [, bracketed, plain, digits] =
    /^(?:\[(.+)\]|([\d.]+))?:(\d{1,5})$/.exec(text) ?? [];
  const name = bracketed ?? plain;
  const address = name && ifPossible(() => Ip.parse(name));
  const port = Number(digits);
  const isPort = port >= 1 && port <= 65535;
  if (isPort && (name === undefined || address)) {
    return { address: address || undefined, port };
  }
  throw refuse(
    call.command,
    `--to must be ADDRESS, ADDRESS:PORT or :PORT, not "${text}"`,
  );
}

/** Reports probes. What somebody named must be reached. */
export function report(all: readonly Probed[]): Output {
  const isWell = all.every((probed) =>
    probed.cause === undefined &&
    (probed.wanted.kind !== "named" || arrives(probed))
  );
  return {
    json: { ok: isWell, probes: all.map(toShown), causes: toCauses(all) },
    text: (style) =>
      `${formatProbed(all, style)}\n\n${verdict(all, isWell, style)}`,
    exitCode: isWell ? 0 : 1,
  };
}

function verdict(
  all: readonly Probed[],
  isWell: boolean,
  style: Style,
): string {
  if (!isWell) return style.red("Packets are lost");
  return all.every(arrives)
    ? style.green("Every packet arrives")
    : style.yellow("Nothing on this node stops a packet");
}
