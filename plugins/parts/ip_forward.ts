/**
 * IP forwarding between interfaces of the host.
 *
 * @module
 */

import { unlessMissing } from "../../cni/files/io.ts";
import type { Cidr } from "../../net/cidr.ts";
import type { IpFamily } from "../../net/ip.ts";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { listSysctls, readSysctl, writeSysctl } from "../../ffi/sysctl.ts";

/** The parameter that lets the host forward packets of a family. */
export const FORWARDING: Readonly<Record<IpFamily, string>> = {
  4: "net/ipv4/ip_forward",
  6: "net/ipv6/conf/all/forwarding",
};

/**
 * Turns forwarding on for the families of the addresses. It stays on, because
 * all attachments share it.
 */
export function ensureForwarding(
  host: NetNs,
  addresses: readonly Cidr[],
): void {
  inNetns(host, () => {
    for (const family of familiesOf(addresses)) {
      try {
        if (readSysctl(FORWARDING[family]) !== "1") enableForwarding(family);
      } catch (error) {
        throw new Error(`Cannot enable IPv${family} forwarding`, {
          cause: error,
        });
      }
    }
  });
}

/**
 * Turns forwarding of a family on in the calling thread's namespace, for IPv4
 * also on each interface.
 *
 * With concurrent writers, `ip_forward` can become 1 while no interface
 * forwards: a write that does not get the RTNL lock is undone and repeated, and
 * another write that began meanwhile sees its value, and so no change.
 * `conf/default` tells, because a write that counts sets it as well.
 *
 * Source: net/ipv4/devinet.c `devinet_sysctl_forward()`; IPv6 sets its values
 * under the lock.
 */
export function enableForwarding(family: IpFamily): void {
  writeSysctl(FORWARDING[family], "1");
  const ofNewLinks = "net/ipv4/conf/default/forwarding";
  if (family === 6 || readSysctl(ofNewLinks) === "1") return;
  // A link that appears from now on forwards, so the list has all others.
  writeSysctl(ofNewLinks, "1");
  for (const link of listSysctls("net/ipv4/conf")) {
    unlessMissing(() => writeSysctl(`net/ipv4/conf/${link}/forwarding`, "1"));
  }
}

/** Lists the families of the addresses whose packets the host does not forward. */
export function familiesNotForwarded(
  host: NetNs,
  addresses: readonly Cidr[],
): IpFamily[] {
  return inNetns(
    host,
    () =>
      familiesOf(addresses).filter((family) =>
        readSysctl(FORWARDING[family]) === "0"
      ),
  );
}

function familiesOf(addresses: readonly Cidr[]): IpFamily[] {
  return [...new Set(addresses.map(({ family }) => family))];
}
