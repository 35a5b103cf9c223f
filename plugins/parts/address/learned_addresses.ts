/**
 * The addresses that an interface has from its network: from router
 * advertisements, or from the lease of a DHCP server.
 *
 * @module
 */

import { isLearned } from "../../../cni/result/learned.ts";
import type { Result } from "../../../cni/result/result.ts";
import type { Address } from "../../../ffi/rtnl/address.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { listAddresses } from "../link/configure_link.ts";

/**
 * Lists the learned addresses, without temporary ones, which do not identify a
 * container, in the order of their prefixes in the advertisement.
 */
export function listLearned(sandbox: Rtnl, link: Link): Address[] {
  return selectLearned(listAddresses(sandbox, link));
}

/** @param addresses Of one link */
function selectLearned(addresses: readonly Address[]): Address[] {
  return addresses
    .filter(({ address: { ip }, isPermanent, isTemporary }) =>
      ip.family === 6 && !ip.isLinkLocal && !isPermanent && !isTemporary
    )
    // The kernel lists the newest first.
    .reverse()
    .sort((one, other) =>
      Number(one.isDeprecated) - Number(other.isDeprecated)
    );
}

/** Reports whether no other host has an address. */
export function isUsable({ isTentative, hasDadFailed }: Address): boolean {
  return !isTentative && !hasDadFailed;
}

/**
 * Lists the addresses that an interface now has from its network, whose IPAM
 * plugin returned the result: the addresses of ADD that it still has, then the
 * learned ones, which may have replaced those of ADD. Includes addresses that are
 * still checked for duplicates.
 */
export function listGiven(
  sandbox: Rtnl,
  link: Link,
  { ips }: Pick<Result, "ips">,
): Address[] {
  const present = listAddresses(sandbox, link);
  const kept = ips.filter((ip) => !isLearned(ip)).flatMap(({ address }) =>
    present.filter((one) => one.address.ip.equals(address.ip))
  );
  return ips.some(isLearned) ? [...kept, ...selectLearned(present)] : kept;
}
