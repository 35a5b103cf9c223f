/**
 * The path of a packet from the container to the host.
 *
 * @module
 */

import { shell } from "../../../base/command_line/shell.ts";
import { isErrno } from "../../../ffi/errno.ts";
import { valueOf } from "../../../metadata/plugin_metadata.ts";
import { BridgeVlanRequests } from "../../../ffi/rtnl/bridge_vlan.ts";
import { Table } from "../../../ffi/rtnl/constants.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { NeighborRequests } from "../../../ffi/rtnl/neighbor.ts";
import type { Ip } from "../../../net/ip.ts";
import { adviseRestart, findMaster } from "../live.ts";
import { sharedLinkOf } from "../routed.ts";
import { nameOfSysctl, readHostSysctl, readSysctlOf } from "../sysctls.ts";
import { findReturnRoute } from "./host_steps.ts";
import {
  FAR,
  inFamily,
  isOnHost,
  LEAVES,
  networkOf,
  type Outcome,
  type Path,
  type Step,
} from "./endpoint.ts";

function findInterface(path: Path): Outcome {
  const { link, start: { ifName, attachment } } = path.end;
  if (link === undefined) {
    return {
      text: `the namespace has no interface "${ifName}"`,
      ...adviseRestart(attachment),
      look: path.inSandbox("ip link"),
    };
  }
  return link.isUp ? undefined : {
    text: `"${ifName}" is down`,
    command: path.inSandbox(shell`ip link set ${ifName} up`),
  };
}

function findAddress(path: Path): Outcome {
  const { end: { link, start: { ifName, address } }, sandbox } = path;
  const found = sandbox.address.list({ ifindex: link?.index ?? 0 })
    .find((one) => one.address.ip.equals(address.ip));
  if (found?.hasDadFailed) {
    return {
      text: `another host has ${address.ip}, too`,
      advice: "take the address from the other host, and restart the container",
      look: path.inSandbox("ip -6 address"),
    };
  }
  if (found !== undefined) return undefined;
  const key = `net/ipv6/conf/${ifName}/disable_ipv6`;
  const isDisabled = address.family === 6 &&
    readSysctlOf(sandbox, key) === "1";
  const enable = path.inSandbox(shell`sysctl -w ${key}=0`);
  const add = path.inSandbox(shell`ip address add ${address} dev ${ifName}`);
  return {
    text: `"${ifName}" does not have ${address.ip}` +
      (isDisabled ? ": IPv6 is disabled on it" : ""),
    command: isDisabled ? `${enable} && ${add}` : add,
  };
}

function findOtherEnd(path: Path): Outcome {
  const { link, hostEnd, start } = path.end;
  if (link?.kind !== "veth") return findLowerLink(path);
  if (hostEnd === undefined) {
    return {
      text: `the other end of "${link.name}" is not on the host`,
      ...adviseRestart(start.attachment),
      look: path.inSandbox(shell`ip -details link show ${link.name}`),
    };
  }
  return hostEnd.isUp ? undefined : {
    text: `"${hostEnd.name}", the host's end of "${link.name}", is down`,
    command: shell`ip link set ${hostEnd.name} up`,
  };
}

/** A macvlan, ipvlan or VLAN is on top of a link of the host. */
function findLowerLink({ node: { host }, end: { link } }: Path): Outcome {
  if (link?.linkIndex === undefined) return LEAVES;
  const lower = host.link.find(link.linkIndex);
  if (lower === undefined) {
    return { text: `the lower link of "${link.name}" is not on the host` };
  }
  return lower.isUp && lower.isOperational ? undefined : {
    text: `"${lower.name}", the lower link of "${link.name}", is ` +
      (lower.isUp ? "without carrier" : "down"),
    command: shell`ip link set ${lower.name} up`,
  };
}

function findBridge(
  { node: { host }, end: { hostEnd, plugins } }: Path,
): Outcome {
  const conf = plugins.find((one) => networkOf(one)?.sharedLink !== undefined);
  const master = findMaster(host, hostEnd);
  if (hostEnd === undefined || (conf ?? master) === undefined) return undefined;
  const { name, port } = hostEnd;
  const wanted = conf === undefined
    ? master?.name
    : sharedLinkOf({ type: String(conf["type"]), document: conf });
  if (master === undefined || master.name !== wanted) {
    return {
      text: `"${name}" is ` +
        (master === undefined
          ? "not a port of a bridge"
          : `a port of "${master.name}"`) +
        `, instead of "${wanted}"`,
      command: shell`ip link set ${name} master ${wanted}`,
    };
  }
  if (!master.isUp) {
    return {
      text: `the bridge "${master.name}" is down`,
      command: shell`ip link set ${master.name} up`,
    };
  }
  const state = port?.state ?? "forwarding";
  if (state !== "forwarding") {
    // STP holds back a new port for twice the forward delay, 30 s by default.
    const isNew = state === "listening" || state === "learning";
    return {
      text: `"${name}" is ${state} as a port of "${master.name}"` +
        (isNew ? ": STP holds back each new port for some time" : ""),
      command: isNew
        ? shell`ip link set ${master.name} type bridge stp_state 0`
        : shell`bridge link set dev ${name} state 3`,
      look: shell`bridge -details link show dev ${name}`,
    };
  }
  const vlan = Number(conf && valueOf(conf, "vlan") || 0);
  return vlan === 0 || hasVlan(host, hostEnd, vlan) ? undefined : {
    text: `"${name}" is not in VLAN ${vlan} of "${master.name}"`,
    command: shell`bridge vlan add dev ${name} vid ${vlan} pvid untagged`,
  };
}

function hasVlan({ socket }: Rtnl, { index }: Link, vlan: number): boolean {
  return new BridgeVlanRequests(socket).list(index)
    .some(({ first, last }) => first <= vlan && vlan <= last);
}

/** Finds the route by which packets leave the container. */
function findRoute(path: Path): Outcome {
  const { sandbox, end: { start, link, hasDefault }, family } = path;
  const { ifName, address: { ip: source } } = start;
  try {
    path.route = sandbox.route.lookUp({ destination: FAR[family], source });
  } catch (error) {
    if (!isErrno(error, "ENETUNREACH", "EHOSTUNREACH", "EINVAL", "EACCES")) {
      throw error;
    }
    return hasDefault
      ? {
        text: `no route to the outside from ${source}`,
        command: addDefaultRoute(path),
      }
      : judgeSubnet(path);
  }
  const { ifindex, gateway, table } = path.route;
  if (ifindex === link?.index) return undefined;
  // The default route is another network's, as with multus.
  if (!hasDefault) return judgeSubnet(path);
  const takes = sandbox.link.find(ifindex ?? 0)?.name ?? "?";
  return {
    text: "default route" + (gateway === undefined ? "" : ` via ${gateway}`) +
      ` by "${takes}"` + (table === Table.Main ? "" : `, by table ${table}`) +
      `: packets from ${source} take another interface than "${ifName}"`,
    takes,
    look: path.inSandbox("ip route show table all"),
  };
}

/** Without a default route, only the subnet is reached. */
function judgeSubnet(path: Path): Outcome {
  const { node, end: { gateway, hasRoutes } } = path;
  // A default route of another network is not its own.
  path.route = undefined;
  // host-local names a gateway for each subnet, whether or not there is one.
  const isUsed = gateway !== undefined &&
    (hasRoutes || isOnHost(node, gateway));
  return isUsed ? undefined : LEAVES;
}

/** Returns the command for the default route, and for what it needs first. */
function addDefaultRoute(path: Path): string {
  const { family, sandbox, end: { gateway, link, start } } = path;
  const { ifName, address } = start;
  const write = (command: string): string =>
    path.inSandbox(inFamily(family, command));
  if (gateway === undefined) {
    return write(shell`ip route add default dev ${ifName}`);
  }
  const add = write(shell`ip route add default via ${gateway} dev ${ifName}`);
  const ifindex = link?.index ?? 0;
  // Without a route to it, the kernel refuses it as a gateway.
  const isNear = sandbox.route.list({ family, ifindex })
    .some(({ destination, gateway: via }) =>
      via === undefined && destination.contains(gateway)
    );
  if (isNear) return add;
  const own = sandbox.address.list({ ifindex })
    .find((one) => one.address.ip.equals(address.ip))?.address;
  const isWider = own?.prefixLength !== address.prefixLength &&
    address.contains(gateway);
  const first = isWider
    ? shell`ip address replace ${address} dev ${ifName}`
    : shell`ip route replace ${gateway} dev ${ifName}`;
  return `${write(first)} && ${add}`;
}

/** Source: Documentation/networking/ip-sysctl.rst `arp_ignore`. */
const IGNORE_ALL = "8";

/** Where the node is the gateway, it must answer ARP. */
function findArp(path: Path): Outcome {
  const { end: { entry, link, gateway, start }, family, node } = path;
  if (link?.kind === "veth" && !link.hasArp) {
    return {
      text: `ARP is off on "${link.name}"`,
      command: path.inSandbox(shell`ip link set ${start.ifName} arp on`),
    };
  }
  if (
    family === 6 || entry === undefined || gateway === undefined ||
    !isOnHost(node, gateway)
  ) return undefined;
  if (!entry.hasArp) {
    return {
      text: `ARP is off on "${entry.name}", so that the node does not answer ` +
        `for its gateway ${gateway}`,
      command: shell`ip link set ${entry.name} arp on`,
    };
  }
  const key = ["all", entry.name]
    .map((name) => `net/ipv4/conf/${name}/arp_ignore`)
    .find((key) => readHostSysctl(node, key) === IGNORE_ALL);
  return key === undefined ? undefined : {
    text:
      `${nameOfSysctl(key)} is ${IGNORE_ALL}: the node answers no ARP for ` +
      `its gateway ${gateway}`,
    command: shell`sysctl -w ${key}=0`,
  };
}

/** Finds that the gateway does not exist, or has not answered. */
function findGateway(path: Path): Outcome {
  const { node, sandbox, family, end } = path;
  const { gateway: own, plugins, entry, hostEnd, start } = end;
  const { ifName, address: { prefixLength } } = start;
  const gateway = path.route?.gateway ?? own;
  if (gateway === undefined) return undefined;
  const isHere = isOnHost(node, gateway);
  const isGiven = plugins.some((conf) => networkOf(conf)?.hasGateway?.(conf));
  if (isGiven && own?.equals(gateway) && !isHere) {
    return {
      text: `the host does not have the gateway ${gateway}`,
      command:
        shell`ip address add ${gateway}/${prefixLength} dev ${entry?.name}`,
    };
  }
  if (!isSilent(sandbox, gateway)) return undefined;
  const text = `the gateway ${gateway} does not answer on "${ifName}"`;
  if (isHere) {
    return findReturnRoute(path) ?? {
      text,
      advice: "the gateway is this node: look for rules that drop what comes " +
        `from "${entry?.name}" before it is forwarded`,
      look: "nft list ruleset; tc filter show dev " +
        `${(hostEnd ?? entry)?.name} ingress`,
    };
  }
  return own !== undefined && !own.equals(gateway) && isOnHost(node, own)
    ? {
      text: `${text}, and ADD set up ${own}`,
      command: path.inSandbox(inFamily(
        family,
        shell`ip route replace default via ${own} dev ${ifName}`,
      )),
    }
    : {
      text,
      advice: "look at the gateway, and at what is between it and the link",
      look: path.inSandbox("ip neighbour"),
    };
}

/** Reports whether the kernel has asked for the MAC of a neighbour in vain. */
function isSilent({ socket }: Rtnl, ip: Ip): boolean {
  return new NeighborRequests(socket).list({ family: ip.family })
    .some((one) => one.ip.equals(ip) && one.mac === undefined);
}

/** The steps from the container to the host. */
export const CONTAINER_STEPS: readonly Step[] = [
  { name: "interface", run: findInterface },
  { name: "address", run: findAddress },
  { name: "host-end", run: findOtherEnd },
  { name: "bridge", run: findBridge },
  { name: "route", run: findRoute },
  { name: "arp", run: findArp },
  { name: "gateway", run: findGateway },
];
