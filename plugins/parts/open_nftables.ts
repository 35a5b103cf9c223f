/**
 * Opens nf_tables, which the kernel may lack.
 *
 * @module
 */

import { isErrno } from "../../ffi/errno.ts";
import { Nftables } from "../../ffi/nftables/mod.ts";

/**
 * Opens nf_tables. Returns undefined if the kernel does not have it.
 *
 * @param hostNetns Path of the host's namespace
 * @throws {SyscallError} If the namespace cannot be entered
 */
export function openNftables(hostNetns: string): Nftables | undefined {
  let nftables: Nftables | undefined;
  try {
    nftables = Nftables.open(hostNetns);
    nftables.generation();
    return nftables;
  } catch (error) {
    nftables?.[Symbol.dispose]();
    const isMissing = isErrno(error, "EPROTONOSUPPORT", "EOPNOTSUPP", "EINVAL");
    if (isMissing) return undefined;
    throw error;
  }
}
