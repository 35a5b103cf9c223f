/**
 * Orphans of the host's access to macvlan and ipvlan containers: routes to
 * deleted containers, and access links without routes.
 *
 * @module
 */

import type { Orphan, OrphanSearch } from "../../../metadata/orphans.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { Route } from "../../../ffi/rtnl/route.ts";
import {
  deleteRoutesOf,
  listAccessLinks,
  listContainerRoutes,
  lockAccessLinks,
} from "./host_access.ts";

/** Finds them. */
export function findAccessLinks(search: OrphanSearch): Orphan[] {
  using host = Rtnl.open(search.hostNetns);
  return listAccessLinks(host).flatMap((accessLink): Orphan[] => {
    const [, network = ""] = accessLink.alias?.split("/") ?? [];
    const common = { container: "", network };
    const routes = listContainerRoutes(host, accessLink);
    if (routes.length === 0 && !search.evidence.isBusy) {
      return [{
        kind: "link",
        where: accessLink.name,
        ...common,
        why: "no container uses it",
        remove: () => remove(search, accessLink),
      }];
    }
    return routes.flatMap((route) => {
      const { destination: { ip } } = route;
      const reason = search.evidence.findReason({ addresses: [ip] });
      return reason === undefined ? [] : [{
        kind: "route",
        where: `${ip} dev ${accessLink.name}`,
        ...common,
        ...reason,
        remove: () => remove(search, accessLink, route),
      }];
    });
  });
}

/** Removes a route, and the access link if no route is left. */
async function remove(
  search: OrphanSearch,
  accessLink: Link,
  route?: Route,
): Promise<void> {
  using host = Rtnl.open(search.hostNetns);
  using _lock = await lockAccessLinks(host, search);
  const left = deleteRoutesOf(
    host,
    accessLink,
    ({ destination, priority }) =>
      route?.priority === priority &&
      route?.destination.equals(destination) === true,
  );
  const found = host.link.find(accessLink.name);
  if (left === 0 && found?.index === accessLink.index) {
    host.link.ensureGone(accessLink.index);
  }
}
