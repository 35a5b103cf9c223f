/**
 * Prepares an interface of the sandbox for the router advertisements of its
 * network, before it comes up.
 *
 * @module
 */

import { inNetns, type NetNs } from "../../../ffi/netns.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { ensureSysctl, tryWriteSysctl } from "../../../ffi/sysctl.ts";
import type { Ip } from "../../../net/ip.ts";
import { withAction } from "../link/configure_link.ts";
import { AcceptRa, acceptRaOf } from "./ip_forward.ts";
import { enableIpv6 } from "./ipv6.ts";

/** The most default routes in a result. */
const MOST_ROUTERS = 8;

/** The settings that an interface accepts from router advertisements. */
export interface RouterTrust {
  /** Whether it gets addresses with the advertised prefixes. */
  readonly addresses: boolean;
  /** Whether it gets default routes. */
  readonly defaultRoute: boolean;
}

/**
 * Makes an interface accept router advertisements, and check its addresses for
 * duplicates. Writes only values that differ, because /proc/sys might be read-only.
 *
 * @param more Further sysctls of the interface, by name
 * @throws {Error} If the kernel lacks IPv6, or a sysctl cannot be written
 */
export function acceptRouters(
  sandbox: NetNs,
  ifName: string,
  { addresses, defaultRoute }: RouterTrust,
  more: Readonly<Record<string, string>> = {},
): void {
  enableIpv6(sandbox, ifName, { detectsDuplicates: true });
  inNetns(sandbox, () => {
    const place = `net/ipv6/conf/${ifName}`;
    try {
      // The container might forward packets.
      ensureSysctl(acceptRaOf(ifName), AcceptRa.always);
      const values = {
        accept_ra_pinfo: "1",
        accept_ra_defrtr: defaultRoute ? "1" : "0",
        autoconf: addresses ? "1" : "0",
        ...more,
      };
      for (const [name, value] of Object.entries(values)) {
        ensureSysctl(`${place}/${name}`, value);
      }
    } catch (cause) {
      const problem = `Cannot make "${ifName}" accept router advertisements`;
      throw new Error(problem, { cause });
    }
    // The random pause before the first probe is meant for machines that start at the
    // same time.
    tryWriteSysctl(`${place}/router_solicitation_delay`, "0");
  });
}

/** Lists the routers of an interface's default routes, at most {@linkcode MOST_ROUTERS}. */
export function listRouters(sandbox: Rtnl, { index, name }: Link): Ip[] {
  const entries = withAction(
    `list the routes of "${name}"`,
    () => sandbox.route.listEntries(),
  );
  return entries
    .filter(({ isDefault, family, origin }) =>
      isDefault && family === 6 && origin === "router"
    )
    .flatMap(({ nextHops }) => nextHops)
    .flatMap(({ ifindex, gateway }) =>
      ifindex === index && gateway !== undefined ? gateway : []
    ).slice(0, MOST_ROUTERS);
}
