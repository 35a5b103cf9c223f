/**
 * Readying both ends of a link for IPv6.
 *
 * @module
 */

import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { ensureSysctl, writeSysctl } from "../../ffi/sysctl.ts";

/** How an interface of the sandbox gets its IPv6 addresses. */
export interface Ipv6Options {
  /** Whether duplicates are detected; the link-local address otherwise comes at once. */
  readonly detectsDuplicates?: boolean | undefined;
}

/**
 * Makes sure that an interface of the sandbox can have IPv6 addresses, and
 * keeps them while it is down. Runtimes often turn IPv6 off in a new sandbox.
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
    try {
      writeSysctl(`net/ipv6/conf/${ifName}/keep_addr_on_down`, "1");
      if (detectsDuplicates) detectDuplicateAddresses(ifName);
      else skipDuplicateAddressDetection(ifName);
    } catch {
      // Without these it is only less quick, and less firm.
    }
  });
}

/**
 * Readies a link of the host that leads to containers: deaf to router
 * advertisements, for a container is no router for the host, and usable at
 * once. It is done without where it cannot be done: there is no IPv6 in the
 * kernel, or /proc/sys is mounted read-only.
 */
export function readyHostEndForIpv6(host: NetNs, ifName: string): void {
  inNetns(host, () => {
    try {
      writeSysctl(`net/ipv6/conf/${ifName}/accept_ra`, "0");
      skipDuplicateAddressDetection(ifName);
    } catch {
      // Addresses come about all the same, a little later.
    }
  });
}

/**
 * Lets the link-local address be used at once. While it is being checked, for
 * more than a second, the kernel asks for no neighbour on the link, and what is
 * forwarded to the other end is lost.
 */
function skipDuplicateAddressDetection(ifName: string): void {
  writeSysctl(`net/ipv6/conf/${ifName}/accept_dad`, "0");
}

/**
 * Checks addresses before they are used, and by questions that carry a number:
 * on a bridge's port in hairpin mode they come back, and would else be taken
 * for another host's.
 */
function detectDuplicateAddresses(ifName: string): void {
  writeSysctl(`net/ipv6/conf/${ifName}/enhanced_dad`, "1");
  writeSysctl(`net/ipv6/conf/${ifName}/accept_dad`, "1");
}
