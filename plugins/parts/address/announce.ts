/**
 * Announces addresses to neighbours, which may have cached the MAC of a
 * container that had an address before.
 *
 * @module
 */

import { inNetns, type NetNs } from "../../../ffi/netns.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { tryWriteSysctl } from "../../../ffi/sysctl.ts";
import { withAction } from "../link/configure_link.ts";

/**
 * Makes the kernel announce an interface's addresses, by gratuitous ARP and
 * unsolicited neighbour advertisements, whenever it comes up or its MAC
 * changes. Failures are ignored: the neighbours then learn the MAC a little
 * later.
 *
 * Source: containernetworking/plugins plugins/main/bridge/bridge.go.
 */
export function enableAnnouncements(sandbox: NetNs, ifName: string): void {
  writeEach(sandbox, {
    [`net/ipv4/conf/${ifName}/arp_notify`]: "1",
    [`net/ipv6/conf/${ifName}/ndisc_notify`]: "1",
  });
}

/**
 * Prepares an interface, before it has addresses that another container still
 * has: it announces none, answers no ARP request (`arp_ignore` 8), and gets no
 * link-local address (`addr_gen_mode` 1), for which the kernel would send
 * multicast listener reports and router solicitations. Any such frame tells
 * switches where the MAC is, which the other container can have, too. What a
 * virtual machine behind a bridge in the sandbox sends passes.
 *
 * Source: Documentation/networking/ip-sysctl.rst.
 */
export function disableAnnouncements(sandbox: NetNs, ifName: string): void {
  writeEach(sandbox, {
    [`net/ipv4/conf/${ifName}/arp_ignore`]: "8",
    [`net/ipv4/conf/${ifName}/arp_notify`]: "0",
    [`net/ipv6/conf/${ifName}/ndisc_notify`]: "0",
    [`net/ipv6/conf/${ifName}/addr_gen_mode`]: "1",
  });
}

function writeEach(
  sandbox: NetNs,
  values: Readonly<Record<string, string>>,
): void {
  inNetns(sandbox, () => {
    for (const [key, value] of Object.entries(values)) {
      tryWriteSysctl(key, value);
    }
  });
}

/**
 * Makes the kernel announce the addresses again. The announcements that it
 * sends when the interface comes up are lost on a bridge, because the port does
 * not forward yet. This needs no packet socket, which takes the kernel 10 ms to
 * close.
 *
 * @throws {Error} If the kernel refuses
 */
export function announce(sandbox: Rtnl, { index, name, mac }: Link): void {
  // Sets the MAC that the link already has, which the kernel also announces.
  withAction(`announce the addresses of "${name}"`, () => {
    sandbox.link.set(index, { mac });
  });
}
