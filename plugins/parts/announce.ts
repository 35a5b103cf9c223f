/**
 * Telling the neighbours where an address is now: those on a shared link may
 * remember it at the MAC of a container that had it before.
 *
 * @module
 */

import { inNetns, type NetNs } from "../../ffi/netns.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { writeSysctl } from "../../ffi/sysctl.ts";
import { named } from "./configure_link.ts";

/**
 * Lets the kernel announce an interface's addresses, by gratuitous ARP and by
 * unsolicited neighbour advertisements, whenever it comes up or changes its
 * MAC. Where it cannot be, the neighbours find out a little later.
 *
 * Source: containernetworking/plugins plugins/main/bridge/bridge.go.
 */
export function enableAnnouncements(sandbox: NetNs, ifName: string): void {
  inNetns(sandbox, () => {
    for (
      const key of [
        `net/ipv4/conf/${ifName}/arp_notify`,
        `net/ipv6/conf/${ifName}/ndisc_notify`,
      ]
    ) {
      try {
        writeSysctl(key, "1");
      } catch {
        // Without IPv6 there is no such file; /proc/sys may be read-only.
      }
    }
  });
}

/**
 * Has the kernel announce the addresses, now that somebody can hear it. What it
 * sends when the interface comes up is lost on a bridge, whose port does not
 * forward yet. No packet socket is needed: closing one takes the kernel 10 ms.
 *
 * @throws {Error} If the kernel refuses
 */
export function announce(sandbox: Rtnl, { index, name, mac }: Link): void {
  // The MAC that it has: the kernel announces every setting of it.
  named(`announce the addresses of "${name}"`, () => {
    sandbox.link.set(index, { mac });
  });
}
