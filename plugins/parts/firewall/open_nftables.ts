/**
 * Opens nf_tables, which the kernel may lack.
 *
 * @module
 */

import { isErrno } from "../../../ffi/errno.ts";
import { Nftables } from "../../../ffi/nftables/mod.ts";
import { BackendMissing } from "./iptables/find.ts";

/** The reason why nf_tables cannot be used. */
export const NO_NFTABLES = "the kernel has no nf_tables";

/**
 * Opens nf_tables. Returns undefined if the kernel lacks it.
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

/**
 * Opens nf_tables.
 *
 * @throws {BackendMissing} If the kernel lacks nf_tables
 */
export function getNftables(hostNetns: string): Nftables {
  return requireNftables(openNftables(hostNetns));
}

/** @throws {BackendMissing} If {@linkcode openNftables} returned undefined */
export function requireNftables(nftables: Nftables | undefined): Nftables {
  if (nftables !== undefined) return nftables;
  throw new BackendMissing(NO_NFTABLES);
}
