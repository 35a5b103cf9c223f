/**
 * Reads an interface of a container whose IPAM plugin asks the network for addresses.
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

/** What a network gives an interface now. */
export interface NetworkInterface {
  readonly link: Link;
  /** The addresses, see {@linkcode listGiven}. */
  readonly given: readonly Address[];
  /** Lists the routers of its default routes. */
  listRouters(): Ip[];
}

/**
 * Reads what a network gives an interface now.
 *
 * @param result The result of ADD
 * @param read Reads what it needs, before the namespace is closed
 * @returns Undefined if the interface does not exist
 * @throws {Error} If the namespace does not exist, or may not be read
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

/** Reports whether ADD had a default route from a router. */
export function hadRouter({ routes }: Pick<Result, "routes">): boolean {
  return routes.some((route) =>
    isLearned(route) && route.dst.prefixLength === 0
  );
}
