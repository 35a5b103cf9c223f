/**
 * The path of a packet from the host to the outside, and of the answer back.
 *
 * @module
 */

import { shell } from "../../../base/command_line/shell.ts";
import { createLog } from "../../../base/log/log.ts";
import { isErrno } from "../../../ffi/errno.ts";
import { Table } from "../../../ffi/rtnl/constants.ts";
import { isBridge } from "../../../ffi/rtnl/link.ts";
import type { Lookup } from "../../../ffi/rtnl/route.ts";
import { RuleRequests } from "../../../ffi/rtnl/rule.ts";
import { Cidr } from "../../../net/cidr.ts";
import { FORWARDING } from "../../../plugins/parts/address/ip_forward.ts";
import { checkMasquerade } from "../../../plugins/parts/firewall/masquerade/mod.ts";
import { formatFailureText } from "../../../base/command_line/failure.ts";
import { ADD_DEFAULT, explainOwn } from "../../probe/explain_route.ts";
import { decide } from "../../probe/routing.ts";
import { adviseRestart } from "../live.ts";
import type { Node } from "../node.ts";
import { listUplinks } from "../subnets.ts";
import { nameOfSysctl, readHostSysctl } from "../sysctls.ts";
import {
  FAR,
  inFamily,
  isOnHost,
  LEAVES,
  type Outcome,
  type Path,
  type Step,
  type Stop,
} from "./endpoint.ts";

function findRouter({ node, route, end }: Path): Outcome {
  const gateway = route?.gateway ?? end.gateway;
  return gateway === undefined || end.entry === undefined ||
      !isOnHost(node, gateway)
    ? LEAVES
    : undefined;
}

function findForwarding({ node, family, end: { entry } }: Path): Outcome {
  // For IPv6, a link's own parameter only says whether the host is a router there.
  const links = family === 6 ? [] : [entry, ...listUplinks(node)];
  const ofEntry = `net/ipv4/conf/${entry?.name}/forwarding`;
  const key = [
    FORWARDING[family],
    ...links.map((link) => `net/ipv4/conf/${link?.name}/forwarding`),
  ].find((key) => readHostSysctl(node, key) === "0");
  if (key === undefined) return undefined;
  const name = nameOfSysctl(key);
  return {
    text: `${name} is 0`,
    command: shell`sysctl -w ${name}=1`,
    isOfNode: key !== ofEntry,
  };
}

/** The route to the container's address must be by its own link. */
export function findReturnRoute(path: Path): Stop | undefined {
  const { node, end: { entry, start: { address: { ip } } } } = path;
  const own = explainOwn(node.host, ip);
  if (own !== undefined) return own;
  const back = lookUpOnHost(node, { destination: ip });
  if (back !== undefined && back.ifindex === entry?.index) return undefined;
  return {
    text: back === undefined
      ? `the host has no route back to ${ip}`
      : `the route back to ${ip} is by "${
        nameOf(node, back.ifindex)
      }" instead of "${entry?.name}"`,
    ...explainBack(path),
  };
}

/** Looks up a route on the host; undefined without one. */
function lookUpOnHost(
  { host }: Node,
  packet: Parameters<Node["host"]["route"]["lookUp"]>[0],
): Lookup | undefined {
  try {
    return host.route.lookUp(packet);
  } catch (error) {
    if (isErrno(error, ...NO_ROUTE)) return undefined;
    throw error;
  }
}

const NO_ROUTE = [
  "ENETUNREACH",
  "EHOSTUNREACH",
  "EINVAL",
  "EACCES",
  "EXDEV",
] as const;

function nameOf({ host }: Node, ifindex: number | undefined): string {
  const link = ifindex === undefined ? undefined : host.link.find(ifindex);
  return link?.name ?? "?";
}

/**
 * Explains what leads answers elsewhere: a rule, a route that is as narrow as the
 * container's own, or the absence of that.
 */
function explainBack(path: Path): Omit<Stop, "text"> {
  const { node, family, end: { entry, gateway, start: { address } } } = path;
  const { ip } = address;
  const write = (command: string): string => inFamily(family, command);
  const look = `${write(`ip route get ${ip}`)}; ` +
    write(`ip route show table all match ${ip}`);
  const rules = new RuleRequests(node.host.socket).list();
  const { rule, route } = decide(rules, node.host.route.listEntries(), {
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
      .map(({ ifindex }) => nameOf(node, ifindex)),
  );
  return {
    advice: `remove the route to ${destination} by "${
      [...by].join('" and "')
    }", or give the network another subnet: a VPN or another program has added it`,
    look,
  };
}

function findUplinkRoute(path: Path): Outcome {
  const { node, family, end: { entry, hasDefault, origin: { source } } } = path;
  if (!hasDefault) return LEAVES;
  const destination = FAR[family];
  const inputIndex = entry?.index;
  if (lookUpOnHost(node, { destination, source, inputIndex })) {
    return undefined;
  }
  const hasOwn = lookUpOnHost(node, { destination }) !== undefined;
  // Many nodes give containers IPv6 addresses, and have no IPv6 uplink.
  if (family === 6 && !hasOwn) return LEAVES;
  return {
    text: `the host has no route to the outside for packets from ${source}`,
    isOfNode: true,
    advice: hasOwn
      ? "remove the routing rule or the route that stops them: the host's own " +
        "packets have one"
      : ADD_DEFAULT,
    look: shell`ip route get ${destination} from ${source} iif ${entry?.name}` +
      "; ip rule; ip route show table all",
  };
}

async function findMasquerade(path: Path): Promise<Outcome> {
  const { node, end: { isMasqueraded, start: { attachment, address } } } = path;
  if (attachment === undefined || !isMasqueraded) return undefined;
  const { network, containerId, ifName } = attachment;
  try {
    await checkMasquerade({
      owner: { network, containerId, ifName },
      hostNetns: node.hostNetns,
      backend: undefined,
      path: node.env["PATH"],
      log: createLog({}, () => {}),
    }, [address]);
    return undefined;
  } catch (error) {
    return {
      text: formatFailureText(error),
      ...adviseRestart(attachment),
      look: "nft list ruleset | grep masquerade",
    };
  }
}

/** The steps from the host to the outside. */
export const HOST_STEPS: readonly Step[] = [
  { name: "router", run: findRouter },
  { name: "forwarding", run: findForwarding },
  { name: "return-route", run: findReturnRoute },
  { name: "uplink", run: findUplinkRoute },
  { name: "masquerade", run: findMasquerade },
];
