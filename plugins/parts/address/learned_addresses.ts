/**
 * The addresses that an interface has from router advertisements.
 *
 * @module
 */

import type { Address } from "../../ffi/rtnl/address.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { listAddresses } from "../../plugins/parts/link/configure_link.ts";

/**
 * Lists them, without temporary ones, which do not identify a container, in the
 * order of their prefixes in the advertisement.
 */
export function listLearned(sandbox: Rtnl, link: Link): Address[] {
  return listAddresses(sandbox, link)
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
