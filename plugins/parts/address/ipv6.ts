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
   * immediately. "default" keeps the kernel's setting.
   */
  readonly detectsDuplicates?: boolean | "default" | undefined;
}

/**
 * Ensures that an interface of the sandbox can have IPv6 addresses, and keeps them
 * while it is down. Runtimes often disable IPv6 in a new sandbox.
 *
 * Source: containernetworking/plugins pkg/ipam/ipam_linux.go `ConfigureIface`.
 *
 * @throws {Error} If the kernel lacks IPv6
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
 * because a container must not be the host's router, and is usable immediately.
 * Failures are ignored, because the kernel might lack IPv6, or /proc/sys might be
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
 * Enables duplicate address detection, with a nonce in each probe (enhanced DAD). On
 * a bridge port in hairpin mode, probes return, and without the nonce they would look
 * like probes of another host.
 */
function detectDuplicateAddresses(ifName: string): void {
  tryWriteSysctl(`net/ipv6/conf/${ifName}/enhanced_dad`, "1");
  tryWriteSysctl(`net/ipv6/conf/${ifName}/accept_dad`, "1");
}
