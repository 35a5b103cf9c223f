/**
 * Explains a loss for which the kernel reports no drop reason: differences
 * that CHECK finds, ARP, forwarding, and the routes of containers and of answers.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { isErrno } from "../../ffi/errno.ts";
import { Table } from "../../ffi/rtnl/constants.ts";
import { isBridge } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { NeighborRequests } from "../../ffi/rtnl/neighbor.ts";
import type { Lookup } from "../../ffi/rtnl/route.ts";
import { RuleRequests } from "../../ffi/rtnl/rule.ts";
import { Cidr } from "../../net/cidr.ts";
import type { Ip, IpFamily } from "../../net/ip.ts";
import { FORWARDING } from "../../plugins/parts/address/ip_forward.ts";
import { adviseRepair, findDifferences } from "../node/differences.ts";
import type { NodeReader } from "../node/node_reader.ts";
import { listUplinks } from "../node/routers.ts";
import {
  forwardingCommand,
  nameOfSysctl,
  readSysctlOf,
} from "../node/sysctls.ts";
import type { Cause } from "./cause.ts";
import { FAR, isOnHost, type ProbeEndpoint } from "./endpoint.ts";
import { explainPort } from "./explain_link.ts";
import { ADD_DEFAULT, explainOwn } from "./explain_route.ts";
import { decide } from "./routing.ts";

/** A container that loses packets, and its open namespace. */
interface Lossy {
  readonly node: NodeReader;
  readonly end: ProbeEndpoint;
  readonly sandbox: Rtnl;
}

/** A cause; its check is `packet-ends` if absent. */
type Found = Omit<Cause, "check"> & Partial<Pick<Cause, "check">> | undefined;

/**
 * Explains a loss with the settings of a container and of the node.
 *
 * @param isOut Whether the packets are meant to leave the node
 */
export async function explainPath(
  node: NodeReader,
  end: ProbeEndpoint,
  isOut: boolean,
): Promise<Cause | undefined> {
  using sandbox = Rtnl.open(end.start.netns);
  const lossy = { node, end, sandbox };
  const isRouted = end.isRouted && end.entry !== undefined;
  const first = explainDetour(lossy) ??
    (isRouted ? await explainForwarding(lossy) : undefined);
  if (first !== undefined) return { check: "packet-ends", ...first };
  const changed = await explainDifference(lossy);
  if (changed !== undefined) return changed;
  const port = end.hostEnd && explainPort(node, end.hostEnd);
  if (port !== undefined) return port;
  const own = explainArp(lossy) ??
    (isRouted ? explainReturn(lossy) : undefined);
  if (own !== undefined) return causeOf(end, own);
  const noRoute = isRouted && isOut ? explainNoRoute(lossy) : undefined;
  if (noRoute !== undefined) return { check: "packet-ends", ...noRoute };
  const silence = explainGateway(lossy);
  return silence && causeOf(end, silence);
}

function causeOf(
  { origin: { name } }: ProbeEndpoint,
  { text, ...help }: NonNullable<Found>,
): Cause {
  return {
    check: "packet-ends",
    text: `packets of ${name} are lost: ${text}`,
    ...help,
  };
}

/** Writes a command that runs in the container's namespace. */
function inside({ end: { start } }: Lossy, command: string): string {
  return shell`nsenter --net=${start.netns} ` + command;
}

/** Writes a command of `ip` for a family, which is named only for IPv6. */
function inFamily(family: IpFamily, command: string): string {
  return family === 4 ? command : command.replace(/^ip /, "ip -6 ");
}

const NO_ROUTE = [
  "ENETUNREACH",
  "EHOSTUNREACH",
  "EINVAL",
  "EACCES",
  "EXDEV",
] as const;

/** Looks up a route; undefined without one. */
function lookUp(
  { route }: Rtnl,
  packet: Parameters<Rtnl["route"]["lookUp"]>[0],
): Lookup | undefined {
  try {
    return route.lookUp(packet);
  } catch (error) {
    if (isErrno(error, ...NO_ROUTE)) return undefined;
    throw error;
  }
}

function nameOf({ link }: Rtnl, ifindex: number | undefined): string {
  return (ifindex === undefined ? undefined : link.find(ifindex)?.name) ?? "?";
}

/** Explains that packets leave the container by a different interface or router. */
function explainDetour(lossy: Lossy): Found {
  const { sandbox, end: { start, origin, link, gateway: own, hasDefault } } =
    lossy;
  const { ifName, address: { ip: source, family } } = start;
  if (!hasDefault || link === undefined) return undefined;
  const route = lookUp(sandbox, { destination: FAR[family], source });
  if (route === undefined) return undefined;
  const { ifindex, gateway, table } = route;
  if (ifindex !== link.index) {
    return {
      text: `${origin.name}: default route` +
        (gateway === undefined ? "" : ` via ${gateway}`) +
        ` over "${nameOf(sandbox, ifindex)}"` +
        (table === Table.Main ? "" : `, in table ${table}`) +
        `: packets from ${source} do not leave through "${ifName}"`,
      advice: "let only one network have a default route; sbr sends each " +
        "address's packets through its own interface",
      look: inside(lossy, "ip route show table all"),
    };
  }
  if (
    gateway === undefined || own === undefined || gateway.equals(own) ||
    !isSilent(sandbox, gateway)
  ) return undefined;
  return {
    text: `the gateway ${gateway} of ${origin.name} does not answer on ` +
      `"${ifName}", but ADD set up ${own}`,
    command: inside(
      lossy,
      inFamily(
        family,
        shell`ip route replace default via ${own} dev ${ifName}`,
      ),
    ),
  };
}

/** Reports whether a neighbour did not answer the kernel's requests for its MAC. */
function isSilent({ socket }: Rtnl, ip: Ip): boolean {
  return new NeighborRequests(socket).list({ family: ip.family })
    .some((one) => one.ip.equals(ip) && one.mac === undefined);
}

async function explainForwarding({ node, end }: Lossy): Promise<Found> {
  const { entry, origin, start: { address: { family }, attachment } } = end;
  const isOff = (key: string): boolean => readSysctlOf(node.host, key) === "0";
  const ofLink = (name: string): string => `net/ipv4/conf/${name}/forwarding`;
  // For IPv6, a link's own parameter only sets whether the host is a router on it.
  const own = family === 4 && entry ? [ofLink(entry.name)] : [];
  const ofNode = [
    FORWARDING[family],
    ...family === 4 ? listUplinks(node).map(({ name }) => ofLink(name)) : [],
  ];
  const key = [...ofNode, ...own].find(isOff);
  if (key === undefined) return undefined;
  const name = nameOfSysctl(key);
  const differences = own.includes(key) && attachment !== undefined
    ? await findDifferences(node, attachment)
    : [];
  const isKnown = differences.some(({ expected }) =>
    expected?.kind === "sysctl" && expected.key === key
  );
  return {
    // Other checks report these causes: `ip-forward` once for all containers.
    ...key === FORWARDING[family] && { check: "ip-forward" },
    ...isKnown && { check: "attachment-changed" },
    text: ofNode.includes(key)
      ? `${name} is 0`
      : `packets of ${origin.name} are lost: ${name} is 0`,
    command: key === FORWARDING[family]
      ? forwardingCommand(node.host, family)
      : shell`sysctl -w ${name}=1`,
  };
}

/** Explains that something that ADD set up is missing. */
async function explainDifference(
  { node, end: { origin, start: { attachment } } }: Lossy,
): Promise<Cause | undefined> {
  if (attachment === undefined) return undefined;
  const [first] = await findDifferences(node, attachment);
  if (first === undefined) return undefined;
  return {
    check: "attachment-changed",
    text: `${origin.name}: ${first.plugin}: ${first.msg}`,
    ...await adviseRepair(node, attachment, first),
  };
}

/** Source: Documentation/networking/ip-sysctl.rst `arp_ignore`. */
const IGNORE_ALL = "8";

/** Explains that a link has no ARP, or that the node does not answer ARP requests. */
function explainArp(lossy: Lossy): Found {
  const { node, end: { entry, link, gateway, start } } = lossy;
  if (link?.kind === "veth" && !link.hasArp) {
    return {
      text: `ARP is off on "${link.name}"`,
      command: inside(lossy, shell`ip link set ${start.ifName} arp on`),
    };
  }
  if (
    start.address.family === 6 || entry === undefined ||
    gateway === undefined || !isOnHost(node, gateway)
  ) return undefined;
  if (!entry.hasArp) {
    return {
      text: `ARP is off on "${entry.name}", so the node does not answer ` +
        `for its gateway ${gateway}`,
      command: shell`ip link set ${entry.name} arp on`,
    };
  }
  const key = ["all", entry.name]
    .map((name) => `net/ipv4/conf/${name}/arp_ignore`)
    .find((key) => readSysctlOf(node.host, key) === IGNORE_ALL);
  return key === undefined ? undefined : {
    text:
      `${nameOfSysctl(key)} is ${IGNORE_ALL}: the node answers no ARP for ` +
      `its gateway ${gateway}`,
    command: shell`sysctl -w ${key}=0`,
  };
}

/** Explains that the node sends answers by a different link than the container's. */
function explainReturn(lossy: Lossy): Found {
  const { node: { host }, end: { entry, start: { address: { ip } } } } = lossy;
  const own = explainOwn(host, ip, true);
  if (own !== undefined) return own;
  const back = lookUp(host, { destination: ip });
  if (back !== undefined && back.ifindex === entry?.index) return undefined;
  return {
    text: back === undefined
      ? `the host has no route back to ${ip}`
      : `the route back to ${ip} is over "${
        nameOf(host, back.ifindex)
      }" instead of "${entry?.name}"`,
    ...explainBack(lossy),
  };
}

/**
 * Explains what leads answers elsewhere: a rule, a route that is as narrow as the
 * container's own, or the absence of that.
 */
function explainBack(
  { node: { host }, end: { entry, gateway, start: { address } } }: Lossy,
): Omit<NonNullable<Found>, "text"> {
  const { ip, family } = address;
  const write = (command: string): string => inFamily(family, command);
  const look = `${write(`ip route get ${ip}`)}; ` +
    write(`ip route show table all match ${ip}`);
  const rules = new RuleRequests(host.socket).list();
  const { rule, route } = decide(rules, host.route.listEntries(), {
    source: FAR[family],
    destination: ip,
    protocol: 0,
    port: undefined,
    input: "lo",
    mark: 0,
  }) ?? {};
  if (rule && rule.table !== Table.Main && rule.table !== Table.Local) {
    return {
      advice: `remove the routing rule that leads ${ip} to another table, or ` +
        "add the container's route to that table",
      look: `${write("ip rule")}; ${look}`,
    };
  }
  const hasMain = rules.some(({ table, source, stops }) =>
    source.family === family && table === Table.Main &&
    source.prefixLength === 0 && !stops
  );
  if (!hasMain) {
    const command = write("ip rule add pref 32766 lookup main");
    return { command, look: write("ip rule") };
  }
  // Behind a bridge, the route is to the subnet, otherwise to the container.
  const isShared = entry !== undefined && isBridge(entry);
  const own = isShared ? address.masked() : new Cidr(ip, ip.bitLength);
  if (
    route === undefined ||
    route.destination.prefixLength < own.prefixLength
  ) {
    const source = isShared && gateway !== undefined ? ` src ${gateway}` : "";
    const to = isShared ? own : ip;
    const command = shell`ip route add ${to} dev ${entry?.name}` + source;
    return { command: write(command), look };
  }
  const { destination, table, isUnicast, nextHops } = route;
  if (table === Table.Local) {
    const command = write(`ip route del local ${destination} table local`);
    return { command, look };
  }
  if (!isUnicast) {
    return { command: write(`ip route del ${destination}`), look };
  }
  const by = new Set(
    nextHops.filter(({ ifindex }) => ifindex !== entry?.index)
      .map(({ ifindex }) => nameOf(host, ifindex)),
  );
  return {
    advice: `remove the route to ${destination} over "${
      [...by].join('" and "')
    }", or give the network a different subnet: a VPN or another program has added it`,
    look,
  };
}

/** Explains that the node has no route to the outside for a container. */
function explainNoRoute(
  { node: { host }, end: { entry, hasDefault, start: { address } } }: Lossy,
): Found {
  const { ip: source, family } = address;
  const destination = FAR[family];
  const inputIndex = entry?.index;
  if (!hasDefault || lookUp(host, { destination, source, inputIndex })) {
    return undefined;
  }
  const hasOwn = lookUp(host, { destination }) !== undefined;
  // Many nodes give containers IPv6 addresses, and have no IPv6 uplink.
  if (family === 6 && !hasOwn) return undefined;
  return {
    text: `the host has no route to the outside for packets from ${source}`,
    advice: hasOwn
      ? "remove the routing rule or the route that stops them: the host's own " +
        "packets do have one"
      : ADD_DEFAULT,
    look: shell`ip route get ${destination} from ${source} iif ${entry?.name}` +
      "; ip rule; ip route show table all",
  };
}

/** Explains that the container's router does not answer. */
function explainGateway(lossy: Lossy): Found {
  const { node, sandbox, end: { gateway, entry, hostEnd, start } } = lossy;
  if (gateway === undefined || !isSilent(sandbox, gateway)) return undefined;
  const text = `the gateway ${gateway} does not answer on "${start.ifName}"`;
  return isOnHost(node, gateway)
    ? {
      text,
      advice: "the gateway is this node: look for rules that drop what comes " +
        `from "${entry?.name}" before it is forwarded`,
      look: "nft list ruleset; " +
        shell`tc filter show dev ${(hostEnd ?? entry)?.name} ingress`,
    }
    : {
      text,
      advice: "check the gateway, and everything between it and the link",
      look: inside(lossy, "ip neighbour"),
    };
}
