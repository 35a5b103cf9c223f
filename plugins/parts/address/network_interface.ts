/**
 * Reads a container's interface whose IPAM plugin requests addresses from the
 * network.
 *
 * @module
 */

import { isLearned } from "../../../cni/result/learned.ts";
import type { Result } from "../../../cni/result/result.ts";
import type { Address } from "../../../ffi/rtnl/address.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { Ip } from "../../../net/ip.ts";
import { listGiven } from "./learned_addresses.ts";
import { listRouters } from "./router_advertisements.ts";

/** The addresses and routers that an interface currently has from its network. */
export interface NetworkInterface {
  readonly link: Link;
  /** The addresses, see {@linkcode listGiven}. */
  readonly given: readonly Address[];
  /** Lists the routers of its default routes. */
  listRouters(): Ip[];
}

/**
 * Reads the current addresses and routers of an interface.
 *
 * @param result The result of ADD
 * @param read Reads further values before the namespace is closed
 * @returns Undefined if the interface does not exist
 * @throws {Error} If the namespace does not exist, or reading it is not permitted
 */
export function readNetworkInterface<T>(
  { netns, ifName }: { readonly netns: string; readonly ifName: string },
  result: Pick<Result, "ips">,
  read: (found: NetworkInterface) => T,
): T | undefined {
  using sandbox = Rtnl.open(netns);
  const link = sandbox.link.find(ifName);
  return link && read({
    link,
    given: listGiven(sandbox, link, result),
    listRouters: () => listRouters(sandbox, link),
  });
}

/** Reports whether ADD's result had a default route from a router. */
export function hadRouter({ routes }: Pick<Result, "routes">): boolean {
  return routes.some((route) =>
    isLearned(route) && route.dst.prefixLength === 0
  );
}
