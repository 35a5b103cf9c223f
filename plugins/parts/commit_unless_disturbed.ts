/**
 * Changing nf_tables by what is there.
 *
 * @module
 */

import { isErrno } from "../../ffi/errno.ts";
import type { Change } from "../../ffi/nftables/change.ts";
import type { Nftables } from "../../ffi/nftables/mod.ts";

/**
 * How often something else may be committed before ours. Whenever that happens
 * another call has finished, and a hundred may run at once when a node starts.
 */
const ATTEMPTS = 1000;

/**
 * Commits changes that follow from what is there, again if that has changed
 * meanwhile, also while it was looked at.
 *
 * @param plan Looks at what is there, and lists the changes
 * @throws {NetlinkError} Of the change that was refused; ERESTART or EINTR if
 * others never cease to commit
 */
export function commitUnlessDisturbed(
  nftables: Pick<Nftables, "commit" | "generation">,
  plan: () => readonly Change[],
): void {
  for (let attempt = 1;; attempt++) {
    const generation = nftables.generation();
    try {
      return nftables.commit(plan(), generation);
    } catch (error) {
      const isDisturbed = isErrno(error, "ERESTART", "EINTR");
      if (!isDisturbed || attempt === ATTEMPTS) throw error;
    }
  }
}
