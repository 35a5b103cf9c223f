/**
 * `cni doctor --pod`: sends packets from a container and to it, and reports where they
 * end.
 *
 * @module
 */

import { refuse } from "../../base/command_line/usage_error.ts";
import type { Output } from "../../base/command_line/command.ts";
import type { Style } from "../../base/command_line/style.ts";
import { ifPossible } from "../../base/files/io.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import type { NodeAttachment } from "../node/node_attachments.ts";
import { resultOf } from "../../libcni/cached_result.ts";
import type { CniCall } from "../flags.ts";
import { Endpoints, type ProbeEndpoint } from "./endpoint.ts";
import { OutsideClient } from "./outside.ts";
import {
  arrives,
  explainUnsent,
  isProblem,
  probeAll,
  type Probed,
} from "./run.ts";
import { formatProbed, toCauses, toShown } from "./show.ts";
import {
  hasHostPorts,
  listHostPorts,
  listNamedProbes,
  listWanted,
  originOfNode,
  type Wanted,
} from "./targets.ts";
import type { NodeReader } from "../node/node_reader.ts";

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
export async function probePod(
  node: NodeReader,
  call: CniCall,
): Promise<Output> {
  const { flags: { pod = "", from, to } } = call;
  const destination = readDestination(call, to);
  using endpoints = new Endpoints(node);
  using stack = new DisposableStack();
  const own = endpoints.addNamed(pod);
  const isWhole = from === undefined && to === undefined;
  const client = from === "outside" || isWhole && own.some(hasHostPorts)
    ? stack.use(await OutsideClient.create(node))
    : undefined;
  const wanted = own.flatMap((subject): Wanted[] => {
    const { address: { ip } } = subject.start;
    const { address = ip, port } = destination;
    if (address.family !== ip.family) return [];
    if (from !== undefined) {
      const sender = from === "node" || from === "outside"
        ? undefined
        : findIn(endpoints.addNamed(from), ip.family);
      const origin = from === "node"
        ? originOfNode(node, ip)
        : sender?.origin ?? client?.origin(ip.family);
      const to = subject.origin.name;
      return origin === undefined
        ? []
        : listNamedProbes(origin, subject, to, { address: ip, port }, sender);
    }
    if (destination.address !== undefined) {
      const peer = findOther(
        node,
        endpoints,
        ip.family,
        (one) =>
          resultOf(one)?.ips.some((other) =>
            other.address.ip.equals(address)
          ) === true,
      );
      const to = { address, port };
      return listNamedProbes(subject.origin, subject, `${address}`, to, peer);
    }
    const peer = findOther(
      node,
      endpoints,
      ip.family,
      ({ network, netns }) =>
        network === subject.network && netns !== subject.start.netns,
    );
    return [
      ...listWanted(node, subject, peer),
      ...client === undefined ? [] : listHostPorts(node, subject, client),
    ];
  });
  if (wanted.length === 0) {
    throw new Error(`"${pod}" has nothing to probe: no address family matches`);
  }
  const probed = await probeAll(node, wanted);
  for (const subject of isWhole ? own : []) {
    const unsent = await explainUnsent(node, subject);
    if (unsent !== undefined) probed.push(unsent);
  }
  return report(probed);
}

/** Finds an address of another container. */
function findOther(
  node: NodeReader,
  endpoints: Endpoints,
  family: IpFamily,
  isMeant: (attachment: NodeAttachment) => boolean,
): ProbeEndpoint | undefined {
  const one = node.liveInterfaces.find(isMeant);
  const found = one && ifPossible(() => endpoints.add(one.netns, [one]));
  return found && findIn(found, family);
}

function findIn(
  endpoints: readonly ProbeEndpoint[],
  family: IpFamily,
): ProbeEndpoint | undefined {
  return endpoints.find(({ start: { address } }) => address.family === family);
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

/** Reports probes. Destinations that the user named must be reached. */
export function report(all: readonly Probed[]): Output {
  const isWell = all.every((probed) =>
    !isProblem(probed.cause) &&
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
  if (all.every(arrives)) return style.green("Every packet arrives");
  return style.yellow(
    all.some(({ cause }) => cause !== undefined)
      ? "This node drops packets only on purpose"
      : "Nothing on this node stops a packet",
  );
}
