/**
 * The node's default routes, their links and their routers.
 *
 * @module
 */

import type { Link } from "../../ffi/rtnl/link.ts";
import { Table } from "../../ffi/rtnl/constants.ts";
import type { RouteEntry } from "../../ffi/rtnl/route_entry.ts";
import type { Ip, IpFamily } from "../../net/ip.ts";
import type { NodeReader } from "./node_reader.ts";

/**
 * Lists the links of the default route: several if it has several next hops, none
 * without one.
 */
export function listUplinks({ host }: Pick<NodeReader, "host">): Link[] {
  const [route] = listDefaultRoutes(host)
    .sort((left, right) => left.priority - right.priority);
  const indices = new Set(route?.nextHops.map(({ ifindex }) => ifindex));
  return [...indices].flatMap((ifindex) =>
    ifindex === undefined ? [] : host.link.find(ifindex) ?? []
  );
}

/** Lists the routers of the node's default route. */
export function listRouters(
  node: Pick<NodeReader, "host">,
  family: IpFamily,
): Ip[] {
  const uplinks = listUplinks(node).map(({ index }) => index);
  const routes = node.host.route.list({ family }).filter((one) =>
    one.destination.prefixLength === 0 && one.gateway !== undefined &&
    (family === 6 || uplinks.includes(one.ifindex ?? 0))
  );
  const [first] = routes
    .sort((left, right) => (left.priority ?? 0) - (right.priority ?? 0))
    .flatMap(({ gateway }) => gateway ?? []);
  return first === undefined ? [] : [first];
}

/** Lists the default routes of table main. */
export function listDefaultRoutes({ route }: NodeReader["host"]): RouteEntry[] {
  return route.listEntries().filter(({ isDefault, isUnicast, table }) =>
    isDefault && isUnicast && table === Table.Main
  );
}
