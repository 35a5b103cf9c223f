/**
 * The first part of a packet's way: from the container to the host.
 *
 * @module
 */

import { shell } from "../../../base/command_line/shell.ts";
import { valueOf } from "../../../metadata/plugin_metadata.ts";
import { BridgeVlanRequests } from "../../../ffi/rtnl/bridge_vlan.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { BridgePortState } from "../../../ffi/rtnl/link_types.ts";
import { Parent, TrafficControl } from "../../../ffi/rtnl/traffic_control.ts";
import { NANOSECONDS_PER_TICK } from "../../../ffi/rtnl/traffic_control_kinds.ts";
import { adviseRestart, findHostEnd } from "../live.ts";
import { sharedLinkOf } from "../routed.ts";
import { readSysctlOf } from "../sysctls.ts";
import {
  ends,
  leaves,
  networkOf,
  type Outcome,
  type Step,
  type Trip,
} from "./trip.ts";
import { findArp, findGateway, findRoute, findRules } from "./gateway.ts";

function findInterface(trip: Trip): Outcome | undefined {
  const { ifName } = trip.start;
  const link = trip.link = trip.sandbox.link.find(ifName);
  if (link === undefined) {
    return ends(
      `the namespace has no interface "${ifName}"`,
      {
        ...adviseRestart(trip.start.attachment),
        look: trip.inSandbox("ip link"),
      },
    );
  }
  if (!link.isUp) {
    const up = trip.inSandbox(shell`ip link set ${ifName} up`);
    return ends(`"${ifName}" is down`, up);
  }
  return undefined;
}

function findAddress(trip: Trip): Outcome | undefined {
  const { ifName, address } = trip.start;
  const found = trip.sandbox.address.list({ ifindex: trip.link?.index ?? 0 })
    .find((one) => one.address.ip.equals(address.ip));
  if (found === undefined) {
    const key = `net/ipv6/conf/${ifName}/disable_ipv6`;
    const add = trip.inSandbox(shell`ip address add ${address} dev ${ifName}`);
    if (address.family === 6 && readSysctlOf(trip.sandbox, key) === "1") {
      return ends(
        `"${ifName}" does not have ${address.ip}: IPv6 is disabled on it`,
        `${trip.inSandbox(shell`sysctl -w ${key}=0`)} && ${add}`,
      );
    }
    return ends(`"${ifName}" does not have ${address.ip}`, add);
  }
  if (found.hasDadFailed) {
    return ends(
      `another host has ${address.ip}, too`,
      {
        advice:
          "take the address from the other host, and restart the container",
        look: trip.inSandbox("ip -6 address"),
      },
    );
  }
  return undefined;
}

function findHostSide(trip: Trip): Outcome | undefined {
  const { link, node } = trip;
  if (link === undefined) return ends("there is no interface");
  if (link.kind !== "veth") {
    // A macvlan, ipvlan or VLAN is on top of another link.
    return link.linkIndex !== undefined ? findLowerLink(trip, link) : leaves(
      `"${link.name}" is not a veth; its way is not on this node`,
    );
  }
  const end = trip.hostEnd = findHostEnd(node, link);
  if (end === undefined) {
    return ends(
      `the other end of "${link.name}" is not on the host`,
      {
        ...adviseRestart(trip.start.attachment),
        look: trip.inSandbox(shell`ip -details link show ${link.name}`),
      },
    );
  }
  trip.entry = end;
  if (!end.isUp) {
    return ends(
      `"${end.name}", the host's end of "${link.name}", is down`,
      shell`ip link set ${end.name} up`,
    );
  }
  return undefined;
}

function findLowerLink(trip: Trip, link: Link): Outcome | undefined {
  const lower = link.linkIndex === undefined
    ? undefined
    : trip.node.host.link.find(link.linkIndex);
  if (lower === undefined) {
    return ends(`the lower link of "${link.name}" is not on the host`);
  }
  if (!lower.isUp || !lower.isOperational) {
    return ends(
      `"${lower.name}", the lower link of "${link.name}", is ` +
        (lower.isUp ? "without carrier" : "down"),
      shell`ip link set ${lower.name} up`,
    );
  }
  return undefined;
}

function findBridge(trip: Trip): Outcome | undefined {
  const { hostEnd, node, plugins } = trip;
  const conf = plugins.find((one) => networkOf(one)?.sharedLink !== undefined);
  if (hostEnd === undefined) return undefined;
  const master = hostEnd.masterIndex === undefined
    ? undefined
    : node.host.link.find(hostEnd.masterIndex);
  if (conf === undefined && master === undefined) return undefined;
  const wanted = conf === undefined
    ? master?.name
    : sharedLinkOf({ type: String(conf["type"]), document: conf });
  if (master?.name !== wanted || master === undefined) {
    return ends(
      `"${hostEnd.name}" is ${
        master === undefined
          ? "not a port of a bridge"
          : `a port of "${master.name}"`
      }, instead of "${wanted}"`,
      shell`ip link set ${hostEnd.name} master ${wanted}`,
    );
  }
  trip.entry = master;
  if (!master.isUp) {
    return ends(
      `the bridge "${master.name}" is down`,
      shell`ip link set ${master.name} up`,
    );
  }
  const state = hostEnd.port?.state;
  if (state !== undefined && state !== "forwarding") {
    return explainPort(hostEnd, master, state);
  }
  const vlan = Number(conf && valueOf(conf, "vlan") || 0);
  if (vlan > 0 && !hasVlan(trip, hostEnd, vlan)) {
    return ends(
      `"${hostEnd.name}" is not in VLAN ${vlan} of "${master.name}"`,
      shell`bridge vlan add dev ${hostEnd.name} vid ${vlan} pvid untagged`,
    );
  }
  return undefined;
}

/** Explains why a port lets no frames pass. */
function explainPort(
  { name }: Link,
  bridge: Link,
  state: BridgePortState,
): Outcome | undefined {
  const text = `"${name}" is ${state} as a port of "${bridge.name}"`;
  const look = shell`bridge -details link show dev ${name}`;
  // STP holds back a new port for twice the forward delay, 30 s by default.
  return state === "listening" || state === "learning"
    ? ends(`${text}: STP holds back each new port for some time`, {
      command: shell`ip link set ${bridge.name} type bridge stp_state 0`,
      look,
    })
    : ends(text, { command: shell`bridge link set dev ${name} state 3`, look });
}

function hasVlan({ node }: Trip, port: Link, vlan: number): boolean {
  return new BridgeVlanRequests(node.host.socket).list(port.index)
    .some(({ first, last }) => first <= vlan && vlan <= last);
}

function findRate(trip: Trip): Outcome | undefined {
  const { hostEnd, node, link } = trip;
  if (hostEnd === undefined || link === undefined) return undefined;
  const traffic = new TrafficControl(node.host.socket);
  const redirected = [Parent.Ingress, Parent.ClsactIngress]
    .flatMap((parent) => traffic.filter.list(hostEnd.index, parent))
    .find(({ redirectTo }) => redirectTo !== undefined);
  const ifb = redirected?.redirectTo === undefined
    ? undefined
    : node.host.link.find(redirected.redirectTo);
  if (redirected !== undefined && ifb?.isUp !== true) {
    return ends(
      ifb === undefined
        ? `the traffic of "${hostEnd.name}" is redirected to a link that is gone`
        : `the traffic of "${hostEnd.name}" is redirected to "${ifb.name}", ` +
          "which is down",
      ifb === undefined
        ? shell`tc qdisc del dev ${hostEnd.name} ingress`
        : shell`ip link set ${ifb.name} up`,
    );
  }
  const limited = [hostEnd, ...ifb === undefined ? [] : [ifb]];
  const buckets = limited.flatMap(({ index, name }) => {
    const bucket = traffic.qdisc.find(index, Parent.Root)?.bucket;
    return bucket === undefined ? [] : [{ name, ...bucket }];
  });
  if (buckets.length === 0) return undefined;
  const small = buckets.find(({ bytesPerSecond, bufferTicks }) =>
    burstOf(bytesPerSecond, bufferTicks) < link.mtu
  );
  if (small !== undefined) {
    const burst = Math.floor(burstOf(small.bytesPerSecond, small.bufferTicks));
    return ends(
      `the limit on "${small.name}" has a burst of ${burst} bytes: larger ` +
        "packets never pass",
      {
        command: shell`tc qdisc del dev ${small.name} root`,
        advice:
          "then set a burst of more than the MTU, and restart the container",
        look: shell`tc -s qdisc show dev ${small.name}`,
      },
    );
  }
  return undefined;
}

function burstOf(bytesPerSecond: number, ticks: number): number {
  return bytesPerSecond * ticks * NANOSECONDS_PER_TICK / 1e9;
}

/** The steps from the container to the host. */
export const CONTAINER_STEPS: readonly Step[] = [
  { name: "interface", run: findInterface },
  { name: "address", run: findAddress },
  { name: "host-end", run: findHostSide },
  { name: "bridge", run: findBridge },
  { name: "rate-limit", run: findRate },
  { name: "rule", run: findRules },
  { name: "route", run: findRoute },
  { name: "arp", run: findArp },
  { name: "gateway", run: findGateway },
];
