/**
 * IP forwarding between interfaces of the host.
 *
 * @module
 */

import { unlessMissing } from "../../../base/files/io.ts";
import type { Cidr } from "../../../net/cidr.ts";
import type { IpFamily } from "../../../net/ip.ts";
import type { Address } from "../../../ffi/rtnl/address.ts";
import { inNetns, type NetNs } from "../../../ffi/netns.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import {
  ensureSysctl,
  listSysctls,
  readSysctl,
  tryWriteSysctl,
  writeSysctl,
} from "../../../ffi/sysctl.ts";

/** The parameter that lets the host forward packets of a family. */
export const FORWARDING: Readonly<Record<IpFamily, string>> = {
  4: "net/ipv4/ip_forward",
  6: "net/ipv6/conf/all/forwarding",
};

/** The parameter that makes the host forward IPv4 packets that arrive on a link. */
function forwardingOf(link: string): string {
  return `net/ipv4/conf/${link}/forwarding`;
}

/**
 * Turns forwarding on for the families of the addresses. It stays on, because
 * all attachments share it.
 *
 * @throws {Error} If forwarding is off, and the kernel refuses the change
 */
export function ensureForwarding(
  host: NetNs,
  addresses: readonly Cidr[],
): void {
  const off = inNetns(
    host,
    () =>
      familiesOf(addresses).filter((family) =>
        enabling(family, () => readSysctl(FORWARDING[family]) !== "1")
      ),
  );
  for (const family of off) {
    enabling(family, () => enableForwarding(host, family));
  }
}

/**
 * Turns forwarding of IPv4 packets from a link on for ADD, if possible. On a node
 * whose /proc/sys is read-only, a different program decides which links forward,
 * possibly a moment later. The host and its containers reach each other anyway, and
 * the Go plugins succeed. Therefore ADD does not fail, but CHECK reports a
 * difference, see {@linkcode listForwardingOff}. If the whole node does not forward,
 * ADD fails like the Go plugins' ADD. A new link inherits `conf/default`, so ADD need
 * not check it.
 *
 * @param link The host's link to the containers
 */
export function tryForwardFrom(
  host: NetNs,
  addresses: readonly Cidr[],
  link: string,
): void {
  if (!familiesOf(addresses).includes(4)) return;
  const key = forwardingOf(link);
  inNetns(host, () => {
    if (readSysctl(key) !== "1") tryWriteSysctl(key, "1");
  });
}

/**
 * Turns forwarding of IPv4 packets from a link on for REPAIR, and throws if that
 * fails.
 *
 * @throws {Error} If the kernel refuses
 */
export function ensureForwardingFrom(
  host: NetNs,
  addresses: readonly Cidr[],
  link: string,
): void {
  if (!familiesOf(addresses).includes(4)) return;
  try {
    inNetns(host, () => ensureSysctl(forwardingOf(link), "1"));
  } catch (cause) {
    throw new Error(`Cannot enable IPv4 forwarding on "${link}"`, { cause });
  }
}

function enabling<T>(family: IpFamily, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    throw new Error(
      `Cannot enable IPv${family} forwarding with "${FORWARDING[family]}"`,
      { cause },
    );
  }
}

/**
 * Turns forwarding of a family on. For IPv4, it also does so on each interface;
 * for IPv6, links that have their router from its advertisements keep it.
 *
 * With concurrent writers, `ip_forward` can become 1 while no interface forwards: a
 * write that does not get the RTNL lock is undone and repeated, and a different write
 * that began in between sees its value, and therefore no change. `conf/default` shows
 * whether a write was complete, because such a write also sets it.
 *
 * Source: net/ipv4/devinet.c `devinet_sysctl_forward()`; IPv6 sets its values
 * under the lock.
 */
export function enableForwarding(host: NetNs, family: IpFamily): void {
  if (family === 6) keepRouters(host);
  inNetns(host, () => turnOn(family));
}

function turnOn(family: IpFamily): void {
  writeSysctl(FORWARDING[family], "1");
  const ofNewLinks = "net/ipv4/conf/default/forwarding";
  if (family === 6 || readSysctl(ofNewLinks) === "1") return;
  // Links that are created later will forward, so the list contains all other links.
  writeSysctl(ofNewLinks, "1");
  for (const link of listSysctls("net/ipv4/conf")) {
    unlessMissing(() => writeSysctl(forwardingOf(link), "1"));
  }
}

/** The values of `accept_ra`. */
export const AcceptRa = { unlessForwarding: "1", always: "2" } as const;

/** The parameter that lets a link accept router advertisements. */
export function acceptRaOf(link: string): string {
  return `net/ipv6/conf/${link}/accept_ra`;
}

/**
 * Makes links with a route or an address from a router advertisement accept
 * advertisements although they forward. Otherwise, the kernel deletes the default
 * route immediately, and no advertisement extends the address. Other links are not
 * changed, because containers could advertise themselves there.
 *
 * Source: Documentation/networking/ip-sysctl.rst `accept_ra`.
 */
function keepRouters(host: NetNs): void {
  using rtnl = Rtnl.open(host.path);
  const links = findLinksToRouters(rtnl);
  for (const { index, name } of rtnl.link.list()) {
    if (!links.has(index)) continue;
    inNetns(host, () =>
      unlessMissing(() => {
        const key = acceptRaOf(name);
        if (readSysctl(key) !== AcceptRa.unlessForwarding) return;
        writeSysctl(key, AcceptRa.always);
      }));
  }
}

/**
 * Makes a link to containers ignore router advertisements: a container could make
 * itself the host's router (CVE-2020-10749). The link is not changed if the host has
 * a router over the link or could get one, or if an administrator has set 2. Failures
 * are ignored, because the kernel might lack IPv6, or /proc/sys might be read-only.
 */
export function ignoreNewRouters(host: Rtnl, link: Link): void {
  const key = acceptRaOf(link.name);
  inNetns(host.netns, () => {
    const value = unlessMissing(() => readSysctl(key));
    if (value !== AcceptRa.unlessForwarding || leadsOut(host, link)) return;
    if (!findLinksToRouters(host).has(link.index)) tryWriteSysctl(key, "0");
  });
}

/** The kinds of ports that lead to containers and virtual machines. */
const KINDS_WITHIN: readonly (string | undefined)[] = ["veth", "tun"];

/**
 * Reports whether a bridge, or the bridge below a VLAN link, has a port to other
 * machines.
 */
function leadsOut(host: Rtnl, { index, linkIndex = index }: Link): boolean {
  return host.link.list({ masterIndex: linkIndex })
    .some(({ kind }) => !KINDS_WITHIN.includes(kind));
}

/** Finds the links over which the host has learned routes or addresses. */
export function findLinksToRouters(rtnl: Rtnl): Set<number | undefined> {
  const learned = [
    ...rtnl.route.listEntries().filter(({ origin }) => origin === "router")
      .flatMap(({ nextHops }) => nextHops),
    ...listLearnedAddresses(rtnl),
  ];
  return new Set(learned.map(({ ifindex }) => ifindex));
}

/** Lists addresses with a lifetime, such as addresses from advertisements. */
export function listLearnedAddresses({ address }: Rtnl): Address[] {
  return address.list().filter(({ address: { ip }, isPermanent }) =>
    ip.family === 6 && !ip.isLinkLocal && !isPermanent
  );
}

/** Lists the parameters that prevent packets of the addresses from being forwarded. */
export function listForwardingOff(
  host: NetNs,
  addresses: readonly Cidr[],
  link: string,
): { readonly family: IpFamily; readonly key: string }[] {
  // CHECK reports a missing link itself.
  const isOff = (key: string): boolean =>
    unlessMissing(() => readSysctl(key)) === "0";
  return inNetns(host, () =>
    familiesOf(addresses).flatMap((family) => {
      const keys = [
        FORWARDING[family],
        ...family === 4 ? [forwardingOf(link)] : [],
      ];
      // Without the first parameter, the kernel turns the second off.
      const key = keys.find(isOff);
      return key === undefined ? [] : [{ family, key }];
    }));
}

function familiesOf(addresses: readonly Cidr[]): IpFamily[] {
  return [...new Set(addresses.map(({ family }) => family))];
}
