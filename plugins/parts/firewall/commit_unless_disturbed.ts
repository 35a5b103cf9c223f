/**
 * Changes to nf_tables that depend on its current state.
 *
 * @module
 */

import { yieldToEventLoop } from "../../../base/deadline.ts";
import { isErrno } from "../../../ffi/errno.ts";
import type { Change } from "../../../ffi/nftables/change.ts";
import type { Nftables } from "../../../ffi/nftables/mod.ts";

/**
 * How often a different commit can come first. Each such commit means that a
 * different call has finished, and a hundred calls can run at the same time when a
 * node starts.
 */
const ATTEMPTS = 1000;

/**
 * Commits changes that depend on the current state. If the state changes while
 * it is read or before the commit, starts again. Between attempts, other calls of
 * this process can run.
 *
 * @param plan Reads the current state and returns the changes. State that was read in
 * this generation is still valid
 * @throws {NetlinkError} If the kernel refuses a change, which the error names;
 * ERESTART or EINTR if other programs keep committing
 */
export async function commitUnlessDisturbed(
  nftables: Pick<Nftables, "commit" | "generation">,
  plan: (generation: number) => readonly Change[],
): Promise<void> {
  for (let attempt = 1;; attempt++) {
    const generation = nftables.generation();
    try {
      return nftables.commit(plan(generation), generation);
    } catch (error) {
      const isDisturbed = isErrno(error, "ERESTART", "EINTR");
      if (!isDisturbed || attempt === ATTEMPTS) throw error;
    }
    await yieldToEventLoop();
  }
}
