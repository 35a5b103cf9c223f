/**
 * The route by which answers come back to a container.
 *
 * @module
 */

import { shell } from "../../../base/command_line/shell.ts";
import { isErrno } from "../../../ffi/errno.ts";
import { Table } from "../../../ffi/rtnl/constants.ts";
import type { RouteEntry } from "../../../ffi/rtnl/route_entry.ts";
import { RuleRequests } from "../../../ffi/rtnl/rule.ts";
import { Cidr } from "../../../net/cidr.ts";
import { isBridge } from "../../../ffi/rtnl/link.ts";
import { ends, type Help, inFamily, type Outcome, type Trip } from "./trip.ts";

/** Looks up a route on the host; undefined without one. */
export function lookUpOnHost(
  { node }: Pick<Trip, "node">,
  packet: Parameters<Trip["node"]["host"]["route"]["lookUp"]>[0],
): Trip["hostRoute"] {
  try {
    return node.host.route.lookUp(packet);
  } catch (error) {
    if (
      isErrno(error, "ENETUNREACH", "EHOSTUNREACH", "EINVAL", "EACCES", "EXDEV")
    ) {
      return undefined;
    }
    throw error;
  }
}

/** The step: the route to the container's address must be by its own link. */
export function findWayBack(trip: Trip): Outcome | undefined {
  const { node, entry, start } = trip;
  const { ip } = start.address;
  const own = node.host.address.list()
    .find(({ address }) => address.ip.equals(ip));
  if (own !== undefined) {
    const link = nameOf(trip, own.ifindex);
    return ends(`the node itself has ${ip}, on "${link}"`, {
      command: shell`ip address del ${own.address} dev ${link}`,
      look: shell`ip address show to ${ip}`,
    });
  }
  const back = lookUpOnHost(trip, { destination: ip });
  if (back === undefined) {
    return ends(`the host has no route back to ${ip}`, explain(trip));
  }
  if (back.ifindex === entry?.index) {
    return undefined;
  }
  return ends(
    `the route back to ${ip} is by "${nameOf(trip, back.ifindex)}" instead ` +
      `of "${entry?.name}"`,
    explain(trip),
  );
}

function nameOf({ node }: Trip, ifindex: number | undefined): string {
  const link = ifindex === undefined ? undefined : node.host.link.find(ifindex);
  return link?.name ?? "?";
}

/**
 * Explains what leads packets elsewhere: a rule, a route that is as narrow as the
 * container's own, or the absence of that.
 */
function explain(trip: Trip): Help {
  const { node, start, family, entry } = trip;
  const { ip } = start.address;
  const own = ownRoute(trip);
  const routes = node.host.route.listEntries().filter((route) =>
    route.family === family && route.destination.contains(ip) &&
    (route.table === Table.Main || route.table === Table.Local)
  ).sort(bySelection);
  const [first] = routes;
  const look = inFamily(family, `ip route get ${ip}`) + "; " +
    inFamily(family, `ip route show table all match ${ip}`);
  if (first !== undefined && isBy(first, entry?.index)) {
    return explainRules(trip, look);
  }
  if (
    first === undefined ||
    first.destination.prefixLength < own.destination.prefixLength
  ) {
    return { command: inFamily(family, `ip route add ${own.text}`), look };
  }
  const { destination, table, isUnicast } = first;
  if (table === Table.Local) {
    const command = `ip route del local ${destination} table local`;
    return { command: inFamily(family, command), look };
  }
  if (!isUnicast) {
    return {
      command: inFamily(family, `ip route del ${destination}`),
      look,
    };
  }
  const others = first.nextHops.filter(({ ifindex }) =>
    ifindex !== entry?.index
  )
    .map(({ ifindex }) => nameOf(trip, ifindex));
  const by = [...new Set(others)].join('" and "');
  return {
    advice: `remove the route to ${destination} by "${by}", or give the ` +
      "network another subnet: a VPN or another program has added it",
    look,
  };
}

/** Orders routes as the kernel chooses: table local, narrower ones, priority. */
function bySelection(left: RouteEntry, right: RouteEntry): number {
  const rank = ({ table }: RouteEntry): number => table === Table.Local ? 0 : 1;
  return rank(left) - rank(right) ||
    right.destination.prefixLength - left.destination.prefixLength ||
    left.priority - right.priority;
}

function isBy(route: RouteEntry, ifindex: number | undefined): boolean {
  return route.isUnicast && ifindex !== undefined && route.isOnlyOver(ifindex);
}

/** The route that the network's plugin makes: to the subnet for a bridge, or to the container. */
function ownRoute(
  { start, entry, gateway }: Trip,
): { readonly destination: Cidr; readonly text: string } {
  const { address } = start;
  const isShared = entry !== undefined && isBridge(entry);
  const destination = isShared
    ? address.masked()
    : new Cidr(address.ip, address.ip.bitLength);
  const source = isShared && gateway !== undefined ? ` src ${gateway}` : "";
  const to = isShared ? `${destination}` : `${address.ip}`;
  return { destination, text: shell`${to} dev ${entry?.name}` + source };
}

/** The routes are right, so a rule leads to another table. */
function explainRules(
  { node, family, start }: Trip,
  look: string,
): Help {
  const rules = new RuleRequests(node.host.socket).list()
    .filter(({ source }) => source.family === family);
  const isMain = rules.some(({ table, source, stops }) =>
    table === Table.Main && source.prefixLength === 0 && !stops
  );
  return isMain
    ? {
      advice: `remove the routing rule that leads ${start.address.ip} to ` +
        "another table, or add the container's route to that table",
      look: `${inFamily(family, "ip rule")}; ${look}`,
    }
    : {
      command: inFamily(family, "ip rule add pref 32766 lookup main"),
      look: inFamily(family, "ip rule"),
    };
}
