/**
 * Explains that a link ends packets: a filter or a qdisc of traffic control, a port of
 * a bridge, or forwarding that is off where answers arrive.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import type { Link } from "../../ffi/rtnl/link_types.ts";
import { Parent, TrafficControl } from "../../ffi/rtnl/traffic_control.ts";
import type { Node } from "../doctor/node.ts";
import type { Cause } from "./cause.ts";
import { findEnded } from "./reasons.ts";
import type { Trace } from "./trace.ts";

/** Explains by the link at which the kernel ended a packet. */
export function explainLink(trace: Trace, node: Node): Cause | undefined {
  const ended = findEnded(trace);
  if (ended === undefined) return undefined;
  const link = node.host.link.find(ended.link);
  if (link === undefined) return undefined;
  const { reason = "", location } = ended;
  if (reason === "TC_INGRESS") return explainFilter(node, link, "ingress");
  if (reason === "TC_EGRESS") {
    return explainFilter(node, findFiltered(node, link), "egress");
  }
  if (/^QDISC_/.test(reason)) return explainQdisc(node, link);
  if (location.startsWith("br_")) return explainPort(node, link);
  return undefined;
}

/** Explains a redirect of what a container sends to another link. */
export function explainRedirect(
  node: Node,
  names: readonly string[],
): Cause | undefined {
  const traffic = new TrafficControl(node.host.socket);
  for (const name of names) {
    const link = node.host.link.find(name);
    if (link === undefined) continue;
    const filter = [Parent.Ingress, Parent.ClsactIngress]
      .flatMap((parent) => traffic.filter.list(link.index, parent))
      .find(({ redirectTo }) => redirectTo !== undefined);
    const target = filter?.redirectTo === undefined
      ? undefined
      : node.host.link.find(filter.redirectTo);
    if (filter === undefined || target === undefined) continue;
    // The plugin bandwidth limits by one.
    if (target.kind === "ifb") continue;
    return {
      check: "packet-ends",
      text:
        `a filter of "${name}" redirects what it receives to "${target.name}"`,
      command: shell`tc filter del dev ${name} ingress pref ${filter.priority}`,
      advice: "and tell the program that added it, or it comes back",
      look: shell`tc -s filter show dev ${name} ingress`,
    };
  }
  return undefined;
}

/** The kernel does not tell yet by which link a packet was to leave. */
function findFiltered(node: Node, last: Link): Link {
  const traffic = new TrafficControl(node.host.socket);
  return [last, ...node.host.link.list()].find(({ index }) =>
    traffic.filter.list(index, Parent.ClsactEgress).length > 0
  ) ?? last;
}

function explainFilter(
  node: Node,
  { index, name }: Link,
  side: "ingress" | "egress",
): Cause {
  const traffic = new TrafficControl(node.host.socket);
  const parents = side === "ingress"
    ? [Parent.Ingress, Parent.ClsactIngress]
    : [Parent.ClsactEgress];
  const filters = parents.flatMap((parent) =>
    traffic.filter.list(index, parent)
  );
  const [filter] = filters;
  return {
    check: "packet-ends",
    text: `a filter of traffic control drops packets on "${name}" (${side})`,
    command: filter !== undefined && filters.length === 1
      ? shell`tc filter del dev ${name} ` + `${side} pref ${filter.priority}`
      : undefined,
    advice: filters.length === 1
      ? "and tell the program that added it, or it comes back"
      : "delete the filter by its pref: " +
        shell`tc filter del dev ${name} ` + `${side} pref PREF`,
    look: shell`tc -s filter show dev ${name} ` + side,
  };
}

function explainQdisc(node: Node, { index, name }: Link): Cause {
  const kind = new TrafficControl(node.host.socket).qdisc
    .find(index, Parent.Root)?.kind;
  return {
    check: "packet-ends",
    text:
      `the qdisc of "${name}"${kind === undefined ? "" : ` (${kind})`} drops ` +
      "each packet: its burst, its limit or its loss lets none pass",
    command: shell`tc qdisc del dev ${name} root`,
    advice: "and tell the program that added it, or it comes back",
    look: shell`tc -s qdisc show dev ${name}`,
  };
}

function explainPort(
  node: Node,
  { name, masterIndex }: Link,
): Cause | undefined {
  const bridge = masterIndex === undefined
    ? undefined
    : node.host.link.find(masterIndex);
  if (bridge === undefined) return undefined;
  const ports = node.host.link.list()
    .filter(({ masterIndex }) => masterIndex === bridge.index);
  const look = shell`bridge -details link show master ${bridge.name}`;
  const held = ports.filter(({ port }) =>
    port?.state === "listening" || port?.state === "learning"
  );
  if (held.length > 0) {
    return {
      check: "packet-ends",
      text: `STP holds back ${
        held.map((one) => `"${one.name}"`).join(", ")
      }, ` +
        `ports of "${bridge.name}"`,
      command: [
        shell`ip link set ${bridge.name} type bridge stp_state 0`,
        ...held.map((one) => shell`bridge link set dev ${one.name} state 3`),
      ].join(" && "),
      look,
    };
  }
  const isolated = ports.filter(({ port }) => port?.isolated === true);
  if (isolated.some((one) => one.name === name) && isolated.length > 1) {
    return {
      check: "packet-ends",
      text: `ports of "${bridge.name}" are isolated from each other: ` +
        isolated.map((one) => `"${one.name}"`).join(", "),
      command: isolated
        .map((one) => shell`bridge link set dev ${one.name} isolated off`)
        .join(" && "),
      look,
    };
  }
  const deaf = ports.filter(({ port }) =>
    port?.learns === false && !port.isFlooded
  );
  if (deaf.length === 0) return undefined;
  return {
    check: "packet-ends",
    text: `"${bridge.name}" neither learns the MACs behind ` +
      `${deaf.map((one) => `"${one.name}"`).join(", ")} nor floods there`,
    command: deaf
      .map((one) => shell`bridge link set dev ${one.name} learning on flood on`)
      .join(" && "),
    look,
  };
}
