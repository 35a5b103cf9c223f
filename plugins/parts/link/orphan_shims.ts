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
  listContainerRoutes,
  listShims,
  lockShims,
} from "./host_access.ts";

/** Finds them. */
export function findShims(search: OrphanSearch): Orphan[] {
  using host = Rtnl.open(search.hostNetns);
  return listShims(host).flatMap((shim): Orphan[] => {
    const [, network = ""] = shim.alias?.split("/") ?? [];
    const common = { container: "", network };
    const routes = listContainerRoutes(host, shim);
    if (routes.length === 0 && !search.evidence.isBusy) {
      return [{
        kind: "link",
        where: shim.name,
        ...common,
        why: "no container uses it",
        remove: () => remove(search, shim),
      }];
    }
    return routes.flatMap((route) => {
      const { destination: { ip } } = route;
      const reason = search.evidence.findReason({ addresses: [ip] });
      return reason === undefined ? [] : [{
        kind: "route",
        where: `${ip} dev ${shim.name}`,
        ...common,
        ...reason,
        remove: () => remove(search, shim, route),
      }];
    });
  });
}

/** Removes a route, and the access link if no route is left. */
async function remove(
  search: OrphanSearch,
  shim: Link,
  route?: Route,
): Promise<void> {
  using host = Rtnl.open(search.hostNetns);
  using _lock = await lockShims(host, search);
  const left = deleteRoutesOf(
    host,
    shim,
    ({ destination, priority }) =>
      route?.priority === priority &&
      route?.destination.equals(destination) === true,
  );
  const found = host.link.find(shim.name);
  if (left === 0 && found?.index === shim.index) {
    host.link.ensureGone(shim.index);
  }
}
