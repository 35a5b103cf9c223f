/**
 * The container's end of the cable.
 *
 * @module
 */

import type { Result } from "../../cni/result.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Route as KernelRoute } from "../../ffi/rtnl/route.ts";
import { enableAnnouncements } from "../parts/announce.ts";
import {
  addingAddress,
  addingRoute,
  bringingUp,
  kernelRouteOf,
  makeChanges,
} from "../parts/configure_link.ts";
import { enableIpv6 } from "../parts/ipv6.ts";
import { type LinkEnd, settleVeth, type Veth } from "../parts/veth.ts";
import type { BridgeSettings } from "./settings.ts";

/**
 * Gives the container its addresses, brings its end up and adds its routes. On
 * a bridge the neighbours are on the link, so the kernel's routes to the
 * subnets stay.
 *
 * @throws {Error} If the kernel refuses
 */
export function configureContainerEnd(
  sandbox: Rtnl,
  link: LinkEnd,
  { ips, routes }: Pick<Result, "ips" | "routes">,
  { detectsDuplicates }: Pick<BridgeSettings, "detectsDuplicates">,
): void {
  if (ips.length > 0) enableAnnouncements(sandbox.netns, link.name);
  if (ips.some(({ address }) => address.family === 6)) {
    enableIpv6(sandbox.netns, link.name, { detectsDuplicates });
  }
  makeChanges(sandbox, [
    ...ips.map(({ address }) =>
      addingAddress(sandbox, link, { address, detectsDuplicates })
    ),
    bringingUp(sandbox, link),
    ...containerRoutes({ ips, routes })
      .map((route) => addingRoute(sandbox, link, route)),
  ]);
}

/** Lists the routes to add to the kernel's subnet routes. */
export function containerRoutes(
  { ips, routes }: Pick<Result, "ips" | "routes">,
): KernelRoute[] {
  return routes.map((route) => kernelRouteOf(route, ips));
}

/** Time limit for the bridge's port to start forwarding, in ms. */
const PORT_TIMEOUT_MS = 2_500;

/**
 * Waits until the bridge's port forwards. Most kernels report that at once,
 * some take a little longer.
 *
 * @returns Both ends
 * @throws {Error} If the port does not start forwarding in time
 */
export async function settlePort(
  host: Rtnl,
  sandbox: Rtnl,
  veth: Veth,
): Promise<Veth<Link>> {
  const ends = settleVeth(host, sandbox, veth);
  if (ends.host.isOperational) return ends;
  const { pollUntil } = await import("../../cni/libcni/waiting.ts");
  return await pollUntil(() => {
    const ends = settleVeth(host, sandbox, veth);
    return ends.host.isOperational ? ends : undefined;
  }, {
    signal: AbortSignal.timeout(PORT_TIMEOUT_MS),
    giveUp: () => new Error("bridge port in error state: down"),
  });
}
