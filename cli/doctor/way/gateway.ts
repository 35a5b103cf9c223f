/**
 * The part of a packet's way that the container's routes decide: rules, the route
 * and the gateway.
 *
 * @module
 */

import { shell } from "../../../base/command_line/shell.ts";
import { isErrno } from "../../../ffi/errno.ts";
import { RuleRequests } from "../../../ffi/rtnl/rule.ts";
import type { Ip } from "../../../net/ip.ts";
import { adviseRestart } from "../live.ts";
import { findNeighbor } from "./neighbor.ts";
import { nameOfSysctl, readHostSysctl } from "../sysctls.ts";
import {
  ends,
  type Help,
  inFamily,
  leaves,
  networkOf,
  type Outcome,
  type Trip,
} from "./trip.ts";
import { findWayBack } from "./way_back.ts";

/** Finds the route by which packets leave. */
export function findRoute(trip: Trip): Outcome | undefined {
  const { sandbox, start, destination, link } = trip;
  const { ip: source } = start.address;
  try {
    trip.route = sandbox.route.lookUp({ destination, source });
  } catch (error) {
    if (!isErrno(error, "ENETUNREACH", "EHOSTUNREACH", "EINVAL", "EACCES")) {
      throw error;
    }
    return trip.hasDefaultRoute === false ? onlySubnet(trip) : ends(
      `no route to the outside from ${source}`,
      addDefaultRoute(trip),
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
  if (by === start.ifName) return undefined;
  // The default route is another network's, as with multus.
  if (trip.hasDefaultRoute === false) return onlySubnet(trip);
  return {
    ...leaves(`${text}: packets from ${source} take another interface`),
    takes: by,
    look: trip.inSandbox("ip route show table all"),
  };
}

/** Source: include/uapi/linux/rtnetlink.h `RT_TABLE_MAIN`. */
const MAIN = 254;

function onlySubnet(trip: Trip): Outcome | undefined {
  const { gateway, hasRoutes } = trip;
  const text = "the network has no default route; only its subnet is reached";
  // A default route of another network is not its own.
  trip.route = undefined;
  // host-local names a gateway for each subnet, whether or not there is one.
  const isUsed = gateway !== undefined &&
    (hasRoutes || isOnHost(trip, gateway));
  return isUsed ? undefined : leaves(text);
}

/** Returns the command for the default route, and for what it needs first. */
function addDefaultRoute(trip: Trip): Help {
  const { gateway, family, sandbox, link, start: { ifName, address } } = trip;
  const write = (command: string): string =>
    trip.inSandbox(inFamily(family, command));
  if (gateway === undefined) {
    return write(shell`ip route add default dev ${ifName}`);
  }
  // Without a route to it, the kernel refuses it as a gateway.
  const isNear = sandbox.route.list({ family, ifindex: link?.index ?? 0 })
    .some(({ destination, gateway: via }) =>
      via === undefined && destination.contains(gateway)
    );
  const add = write(shell`ip route add default via ${gateway} dev ${ifName}`);
  if (isNear) return add;
  const own = sandbox.address.list({ ifindex: link?.index ?? 0 })
    .find((one) => one.address.ip.equals(address.ip))?.address;
  const first = own?.prefixLength !== address.prefixLength &&
      address.contains(gateway)
    ? write(shell`ip address replace ${address} dev ${ifName}`)
    : write(shell`ip route replace ${gateway} dev ${ifName}`);
  return `${first} && ${add}`;
}

/** Finds rules for the source, which sbr adds. A rule may lead to a table without routes. */
export function findRules(trip: Trip): Outcome | undefined {
  const { ip } = trip.start.address;
  const rules = new RuleRequests(trip.sandbox.socket).list()
    .filter(({ source, isBySource }) =>
      isBySource && source.prefixLength > 0 && source.contains(ip)
    );
  const [rule] = rules;
  if (rule === undefined) {
    return trip.plugins.some(({ type }) => type === "sbr")
      ? ends(
        `no rule for packets from ${ip}, although the network runs sbr`,
        {
          ...adviseRestart(trip.start.attachment),
          look: trip.inSandbox("ip rule"),
        },
      )
      : undefined;
  }
  return undefined;
}

/** Where the node is the gateway, it must answer ARP. */
export function findArp(trip: Trip): Outcome | undefined {
  const { entry, link, family, node, gateway, start } = trip;
  if (link?.kind === "veth" && !link.hasArp) {
    return ends(
      `ARP is off on "${link.name}"`,
      trip.inSandbox(shell`ip link set ${start.ifName} arp on`),
    );
  }
  if (family !== 4 || entry === undefined || gateway === undefined) {
    return undefined;
  }
  if (!isOnHost(trip, gateway)) return undefined;
  if (!entry.hasArp) {
    return ends(
      `ARP is off on "${entry.name}", so that the node does not answer for ` +
        `its gateway ${gateway}`,
      shell`ip link set ${entry.name} arp on`,
    );
  }
  const key = ["all", entry.name]
    .map((name) => `net/ipv4/conf/${name}/arp_ignore`)
    .find((key) => readHostSysctl(node, key) === IGNORE_ALL);
  return key === undefined ? undefined : ends(
    `${nameOfSysctl(key)} is ${IGNORE_ALL}: the node answers no ARP for its ` +
      `gateway ${gateway}`,
    shell`sysctl -w ${key}=0`,
  );
}

/** Source: Documentation/networking/ip-sysctl.rst `arp_ignore`. */
const IGNORE_ALL = "8";

function isOnHost({ node }: Trip, gateway: Ip): boolean {
  return node.host.address.list()
    .some(({ address }) => address.ip.equals(gateway));
}

/** Looks whether the gateway has answered. */
export function findGateway(trip: Trip): Outcome | undefined {
  const { sandbox, start } = trip;
  const gateway = trip.route?.gateway ?? trip.gateway;
  if (gateway === undefined) return undefined;
  const missing = findMissingGateway(trip, gateway);
  if (missing !== undefined) return missing;
  const outcome = findNeighbor(sandbox, gateway, {
    link: start.ifName,
    inNetns: (command) => trip.inSandbox(command),
  });
  if (outcome?.state !== "end") return outcome;
  if (isOnHost(trip, gateway)) return explainSilence(trip, outcome);
  const { gateway: own, family } = trip;
  if (own === undefined || own.equals(gateway) || !isOnHost(trip, own)) {
    return outcome;
  }
  return ends(`${outcome.text}, and ADD set up ${own}`, {
    command: trip.inSandbox(
      inFamily(
        family,
        shell`ip route replace default via ${own} dev ${start.ifName}`,
      ),
    ),
  });
}

/** The gateway is this node, so the reason for its silence is here, too. */
function explainSilence(trip: Trip, { text }: Outcome): Outcome {
  const back = findWayBack(trip);
  return back?.state === "end" ? back : ends(text, {
    advice: "the gateway is this node: look for rules that drop what comes " +
      `from "${trip.entry?.name}" before it is forwarded`,
    look: "nft list ruleset; tc filter show dev " +
      `${(trip.hostEnd ?? trip.entry)?.name} ingress`,
  });
}

/** Finds that the host does not have the gateway that a plugin gave it. */
function findMissingGateway(trip: Trip, gateway: Ip): Outcome | undefined {
  const { plugins, entry, start: { address } } = trip;
  const isGiven = plugins.some((conf) => networkOf(conf)?.hasGateway?.(conf));
  if (!isGiven || !trip.gateway?.equals(gateway)) return undefined;
  return isOnHost(trip, gateway) ? undefined : ends(
    `the host does not have the gateway ${gateway}`,
    shell`ip address add ${gateway}/${address.prefixLength} dev ${entry?.name}`,
  );
}
