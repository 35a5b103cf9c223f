/**
 * Opens the sandbox's namespace and checks names in it.
 *
 * @module
 */

import type { CmdArgs } from "../../../cni/call/args.ts";
import { CniError, ErrorCode } from "../../../base/error.ts";
import { findBootId, findFileId } from "../../../base/files/same_file.ts";
import {
  findNetnsId,
  isNamespace,
  isOwnNetns,
} from "../../../cni/call/own_netns.ts";
import type { Call } from "../../../cni/plugin.ts";
import { isErrno, SyscallError } from "../../../ffi/errno.ts";
import { isMissingNetns, type NetNs } from "../../../ffi/netns.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";

/** The error of setns(2) for other files. Source: asm-generic/errno-base.h. */
const EINVAL = 22;

/**
 * Opens the sandbox's namespace, which the call has compared with the host's
 * namespace.
 *
 * @throws {CniError} 8 if CNI_NETNS is not the path of a network namespace, or now
 *   leads to a different one; 11 if descriptors or memory have run out, 999 for any
 *   other failure
 */
export function openSandbox(args: Pick<CmdArgs, "netns">): Rtnl {
  const sandbox = openAny(args);
  try {
    checkSeen(args, sandbox.netns);
    return sandbox;
  } catch (error) {
    sandbox[Symbol.dispose]();
    throw error;
  }
}

/**
 * Checks that an open namespace is the namespace that the call has compared with the
 * host's namespace, because the path can now lead to a different namespace, or to
 * none.
 *
 * @throws {CniError} 8 if it is not
 */
export function checkSeen(args: Pick<CmdArgs, "netns">, netns: NetNs): void {
  const id = netnsIdOf(netns);
  if (!isNamespace(id)) {
    throw new CniError(
      ErrorCode.InvalidNetns,
      `Cannot open network namespace "${args.netns}"`,
      { cause: new SyscallError("setns", EINVAL) },
    );
  }
  if (id === findNetnsId(args)) return;
  throw new CniError(
    ErrorCode.InvalidNetns,
    `Network namespace "${args.netns}" was replaced during the call`,
  );
}

function openAny({ netns }: Pick<CmdArgs, "netns">): Rtnl {
  try {
    return Rtnl.open(netns);
  } catch (error) {
    throw new CniError(
      codeOf(error),
      `Cannot open network namespace "${netns}"`,
      { cause: error },
    );
  }
}

/** Returns device and inode of an open namespace. */
export function netnsIdOf(netns: NetNs): string | undefined {
  return findFileId(pathOf(netns));
}

/**
 * Returns an identifier that is unique among network namespaces, even after this
 * namespace is deleted, because the kernel reuses inodes. Returns undefined before
 * Linux 5.14, and if the kernel does not show the boot ID.
 */
export function persistentIdOf({ socket }: Rtnl): string | undefined {
  const cookie = socket.netnsCookie;
  if (cookie === undefined) return undefined;
  const boot = findBootId();
  return boot && `${boot}/${cookie}`;
}

/** Returns a path that leads to an open namespace until it is closed. */
export function pathOf({ fd }: NetNs): string {
  return `/proc/thread-self/fd/${fd}`;
}

function codeOf(error: unknown): number {
  if (isMissingNetns(error)) return ErrorCode.InvalidNetns;
  return isErrno(error, "EMFILE", "ENFILE", "ENOMEM", "ENOBUFS")
    ? ErrorCode.TryAgainLater
    : ErrorCode.Internal;
}

/**
 * Opens the sandbox's namespace if it still exists.
 *
 * A path that now leads to the host's own namespace was reused by a different
 * process. Deleting by name there would delete the host's links.
 *
 * @throws {CniError} 8 if CNI_NETNS no longer leads to the namespace that the call
 *   checked, 11 or 999 if it exists but cannot be opened
 */
export function findSandbox(
  { args, hostNetns }: Pick<Call, "args" | "hostNetns">,
): Rtnl | undefined {
  if (args.netns === "" || isOwnNetns(args, hostNetns)) return undefined;
  try {
    return openSandbox(args);
  } catch (error) {
    if (isMissingSandbox(error)) return undefined;
    throw error;
  }
}

/**
 * Reports whether {@linkcode openSandbox} or {@linkcode checkSeen} failed, or
 * the open before it, because the namespace no longer exists.
 */
export function isMissingSandbox(error: unknown): boolean {
  return isMissingNetns(error instanceof CniError ? error.cause : error);
}

/**
 * Checks that the interface name is unused in the sandbox. Call it before anything is
 * allocated for the interface.
 *
 * @throws {CniError} 4 if it is taken or cannot be used
 */
export function checkIfNameIsFree(sandbox: Rtnl, ifName: string): void {
  const refuse = (why: string): CniError =>
    new CniError(
      ErrorCode.InvalidEnvironment,
      `Cannot add interface "${ifName}": ${why}`,
    );
  if (ifName.includes("%")) {
    throw refuse("the kernel would replace the % with a number");
  }
  // An environment cannot contain a NUL, but a call within a process can.
  if (ifName.includes("\0")) throw refuse("it contains a NUL");
  if (sandbox.link.find(ifName) !== undefined) {
    throw refuse("the sandbox already contains an interface of that name");
  }
}
