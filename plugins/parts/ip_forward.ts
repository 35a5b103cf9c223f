/**
 * IP forwarding between interfaces of the host.
 *
 * @module
 */

import type { Cidr } from "../../net/cidr.ts";
import type { IpFamily } from "../../net/ip.ts";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { ensureSysctl, readSysctl } from "../../ffi/sysctl.ts";

const FORWARDING: Readonly<Record<IpFamily, string>> = {
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
        ensureSysctl(FORWARDING[family], "1");
      } catch (error) {
        throw new Error(`Cannot enable IPv${family} forwarding`, {
          cause: error,
        });
      }
    }
  });
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
