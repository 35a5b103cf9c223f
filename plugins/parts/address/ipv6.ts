/**
 * Prepares both ends of a link for IPv6.
 *
 * @module
 */

import { inNetns, type NetNs } from "../../../ffi/netns.ts";
import { ensureSysctl, tryWriteSysctl } from "../../../ffi/sysctl.ts";

/** How an interface of the sandbox gets its IPv6 addresses. */
export interface Ipv6Options {
  /**
   * Whether to detect duplicates; if not, the link-local address is usable
   * immediately. "default": as the kernel is set.
   */
  readonly detectsDuplicates?: boolean | "default" | undefined;
}

/**
 * Makes sure that an interface of the sandbox can have IPv6 addresses, and
 * keeps them while it is down. Runtimes often disable IPv6 in a new sandbox.
 *
 * Source: containernetworking/plugins pkg/ipam/ipam_linux.go `ConfigureIface`.
 *
 * @throws {Error} If the kernel has no IPv6
 */
export function enableIpv6(
  sandbox: NetNs,
  ifName: string,
  { detectsDuplicates = false }: Ipv6Options = {},
): void {
  inNetns(sandbox, () => {
    try {
      for (const name of ["lo", ifName]) {
        ensureSysctl(`net/ipv6/conf/${name}/disable_ipv6`, "0");
      }
    } catch (error) {
      throw new Error(`Cannot enable IPv6 on "${ifName}"`, { cause: error });
    }
    // Without these, addresses take longer and are lost while the link is down.
    tryWriteSysctl(`net/ipv6/conf/${ifName}/keep_addr_on_down`, "1");
    if (detectsDuplicates === true) detectDuplicateAddresses(ifName);
    else if (!detectsDuplicates) skipDuplicateAddressDetection(ifName);
  });
}

/**
 * Prepares a link of the host to containers: it ignores router advertisements,
 * because a container is not a router for the host, and is usable immediately.
 * Failures are ignored: the kernel may have no IPv6, or /proc/sys may be
 * read-only.
 */
export function readyHostEndForIpv6(host: NetNs, ifName: string): void {
  inNetns(host, () => {
    tryWriteSysctl(`net/ipv6/conf/${ifName}/accept_ra`, "0");
    // Otherwise, addresses appear a little later.
    skipDuplicateAddressDetection(ifName);
  });
}

/**
 * Makes the link-local address usable immediately. While the kernel checks it,
 * for more than a second, it resolves no neighbours on the link, and packets
 * forwarded to the other end are lost.
 */
function skipDuplicateAddressDetection(ifName: string): void {
  tryWriteSysctl(`net/ipv6/conf/${ifName}/accept_dad`, "0");
}

/**
 * Enables duplicate detection, with a nonce in each probe (enhanced DAD). On a
 * bridge port in hairpin mode probes return, and without the nonce they would
 * look like another host's.
 */
function detectDuplicateAddresses(ifName: string): void {
  tryWriteSysctl(`net/ipv6/conf/${ifName}/enhanced_dad`, "1");
  tryWriteSysctl(`net/ipv6/conf/${ifName}/accept_dad`, "1");
}
