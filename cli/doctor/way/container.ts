/**
 * The first part of a packet's way: from the container to the host.
 *
 * @module
 */

import type { NetworkFacts } from "../../../cni/tools/about.ts";
import type { JsonObject } from "../../../cni/json/json.ts";
import { isErrno } from "../../../ffi/errno.ts";
import { findAbout } from "../../../plugins/abouts.ts";
import { BridgeVlanRequests } from "../../../ffi/rtnl/bridge_vlan.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import { RuleRequests } from "../../../ffi/rtnl/rule.ts";
import { Parent, TrafficControl } from "../../../ffi/rtnl/traffic_control.ts";
import { NANOSECONDS_PER_TICK } from "../../../ffi/rtnl/traffic_control_rate.ts";
import type { Ip } from "../../../net/ip.ts";
import { adviseRestart, findHostEnd } from "../live.ts";
import { askNeighbor } from "./neighbor.ts";
import { sharedLinkOf } from "../routed.ts";
import {
  describeLink,
  doubt,
  ends,
  leaves,
  type Outcome,
  passes,
  type Step,
  type Trip,
} from "./trip.ts";

function networkOf({ type }: JsonObject): NetworkFacts | undefined {
  return findAbout(String(type))?.network;
}

function findInterface(trip: Trip): Outcome {
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
    const up = trip.inSandbox(`ip link set ${ifName} up`);
    return ends(`"${ifName}" is down`, up);
  }
  return passes(`${describeLink(link)} is up`);
}

function findAddress(trip: Trip): Outcome {
  const { ifName, address } = trip.start;
  const found = trip.sandbox.address.list({ ifindex: trip.link?.index ?? 0 })
    .find((one) => one.address.ip.equals(address.ip));
  if (found === undefined) {
    const add = trip.inSandbox(`ip address add ${address} dev ${ifName}`);
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
  return found.isTentative
    ? doubt(`${address.ip} is still checked for duplicates`)
    : passes(`"${ifName}" has ${found.address}`);
}

function findHostSide(trip: Trip): Outcome {
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
        look: trip.inSandbox(`ip -details link show ${link.name}`),
      },
    );
  }
  trip.entry = end;
  if (!end.isUp) {
    return ends(
      `"${end.name}", the host's end of "${link.name}", is down`,
      `ip link set ${end.name} up`,
    );
  }
  if (end.mtu !== link.mtu) {
    return doubt(
      `${describeLink(end)} is up, but its MTU differs: large packets are lost`,
      trip.inSandbox(`ip link set ${link.name} mtu ${end.mtu}`),
    );
  }
  return passes(`${describeLink(end)} on the host is up`);
}

function findLowerLink(trip: Trip, link: Link): Outcome {
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
      `ip link set ${lower.name} up`,
    );
  }
  return passes(`${describeLink(lower)} below it is up`);
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
      `ip link set ${hostEnd.name} master ${wanted}`,
    );
  }
  trip.entry = master;
  if (!master.isUp) {
    return ends(
      `the bridge "${master.name}" is down`,
      `ip link set ${master.name} up`,
    );
  }
  const vlan = conf && networkOf(conf)?.vlan?.(conf) || 0;
  if (vlan > 0 && !hasVlan(trip, hostEnd, vlan)) {
    return ends(
      `"${hostEnd.name}" is not in VLAN ${vlan} of "${master.name}"`,
      `bridge vlan add dev ${hostEnd.name} vid ${vlan} pvid untagged`,
    );
  }
  return passes(
    `"${hostEnd.name}" is a port of "${master.name}"` +
      (vlan > 0 ? ` in VLAN ${vlan}` : ""),
  );
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
        ? `tc qdisc del dev ${hostEnd.name} ingress`
        : `ip link set ${ifb.name} up`,
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
        advice: "set a burst of more than the MTU, and restart the container",
        look: `tc -s qdisc show dev ${small.name}`,
      },
    );
  }
  return passes(
    buckets.map(({ name, bytesPerSecond }) =>
      `"${name}" lets ${bytesPerSecond * 8} bits a second pass`
    ).join(", "),
  );
}

function burstOf(bytesPerSecond: number, ticks: number): number {
  return bytesPerSecond * ticks * NANOSECONDS_PER_TICK / 1e9;
}

function findRoute(trip: Trip): Outcome {
  const { sandbox, start, destination, link } = trip;
  const { ip: source } = start.address;
  try {
    trip.route = sandbox.route.lookUp({ destination, source });
  } catch (error) {
    if (!isErrno(error, "ENETUNREACH", "EHOSTUNREACH", "EINVAL", "EACCES")) {
      throw error;
    }
    if (trip.hasDefaultRoute === false) {
      return trip.gateway === undefined
        ? leaves("the network has no default route; only its subnet is reached")
        : passes(
          "the network has no default route; only its subnet is reached",
        );
    }
    const via = trip.gateway === undefined ? "" : ` via ${trip.gateway}`;
    return ends(
      `no route to the outside from ${source}`,
      trip.inSandbox(`ip route add default${via} dev ${start.ifName}`),
    );
  }
  const { ifindex, gateway, table } = trip.route;
  const by = ifindex === link?.index
    ? start.ifName
    : sandbox.link.find(ifindex ?? 0)?.name ?? "?";
  const where = table === MAIN ? "" : `, by table ${table}`;
  const text = `default route${
    gateway === undefined ? "" : ` via ${gateway}`
  } by "${by}"${where}`;
  return by === start.ifName ? passes(text) : {
    ...leaves(`${text}: packets from ${source} take another interface`),
    takes: by,
    look: trip.inSandbox("ip route show table all"),
  };
}

/** Source: include/uapi/linux/rtnetlink.h `RT_TABLE_MAIN`. */
const MAIN = 254;

/** Finds rules for the source, which sbr adds. A rule may lead to a table without routes. */
function findRules(trip: Trip): Outcome | undefined {
  const { ip } = trip.start.address;
  const rules = new RuleRequests(trip.sandbox.socket).list()
    .filter(({ source, isBySource }) =>
      isBySource && source.prefixLength > 0 && source.contains(ip)
    );
  const [rule] = rules;
  if (rule === undefined) {
    const plugin = trip.plugins.find((one) => networkOf(one)?.hasRules);
    return plugin !== undefined
      ? ends(
        `no rule for packets from ${ip}, although the network runs ${
          plugin["type"]
        }`,
        {
          ...adviseRestart(trip.start.attachment),
          look: trip.inSandbox("ip rule"),
        },
      )
      : undefined;
  }
  return passes(`a rule sends packets from ${ip} to table ${rule.table}`);
}

async function askGateway(trip: Trip): Promise<Outcome | undefined> {
  const { sandbox, start, patience } = trip;
  const gateway = trip.route?.gateway ?? trip.gateway;
  if (gateway === undefined) return undefined;
  const missing = findMissingGateway(trip, gateway);
  if (missing !== undefined || patience.attempts === 0) return missing;
  return await askNeighbor(sandbox, gateway, {
    ...patience,
    source: start.address.ip,
    link: start.ifName,
    inNetns: (command) => trip.inSandbox(command),
  });
}

/** Finds that the host does not have the gateway that a plugin gave it. */
function findMissingGateway(trip: Trip, gateway: Ip): Outcome | undefined {
  const { plugins, entry, node, start: { address } } = trip;
  const isOnHost = plugins.some((conf) => networkOf(conf)?.hasGateway?.(conf));
  if (!isOnHost || !trip.gateway?.equals(gateway)) return undefined;
  const isThere = node.host.address.list()
    .some((one) => one.address.ip.equals(gateway));
  return isThere ? undefined : ends(
    `the host does not have the gateway ${gateway}`,
    `ip address add ${gateway}/${address.prefixLength} dev ${entry?.name}`,
  );
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
  { name: "gateway", run: askGateway },
];
