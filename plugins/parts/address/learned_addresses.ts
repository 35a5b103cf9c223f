/**
 * The addresses that an interface got from its network: from router advertisements,
 * or from a DHCP server's lease.
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
 * Lists the learned addresses, in the order of their prefixes in the advertisement.
 * Temporary addresses are omitted, because they do not identify a container.
 */
export function listLearned(sandbox: Rtnl, link: Link): Address[] {
  return selectLearned(listAddresses(sandbox, link));
}

/** @param addresses Addresses of a single link */
function selectLearned(addresses: readonly Address[]): Address[] {
  return addresses
    .filter(({ address: { ip }, isPermanent, isTemporary }) =>
      ip.family === 6 && !ip.isLinkLocal && !isPermanent && !isTemporary
    )
    // The kernel lists the newest address first.
    .reverse()
    .sort((one, other) =>
      Number(one.isDeprecated) - Number(other.isDeprecated)
    );
}

/** Reports whether no other host uses an address. */
export function isUsable({ isTentative, hasDadFailed }: Address): boolean {
  return !isTentative && !hasDadFailed;
}

/**
 * Lists the addresses that an interface currently has from its network, whose IPAM
 * plugin returned the result: ADD's addresses that it still has, then the learned
 * addresses, which might have replaced ADD's. Includes addresses that are still being
 * checked for duplicates.
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
