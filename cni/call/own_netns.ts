/**
 * Whether a path leads to a sandbox or to the plugin's own namespace.
 *
 * @module
 */

import type { CmdArgs } from "./args.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { findFileId } from "../../base/files/same_file.ts";
import { OWN_NETNS } from "../../ffi/own_netns.ts";

export { OWN_NETNS };

/** The ID of the own namespace, which does not change while the process runs. */
let ownId: string | undefined;

/** Returns the ID of the host's namespace; undefined if it cannot be read. */
export function findHostId(hostNetns: string): string | undefined {
  if (hostNetns !== OWN_NETNS) return findFileId(hostNetns);
  return ownId ??= findFileId(OWN_NETNS);
}

/** Where CNI_NETNS led when a call first looked, by the call's arguments. */
const seen = new WeakMap<Pick<CmdArgs, "netns">, string | undefined>();

/**
 * Returns the device and inode that CNI_NETNS led to when the call first looked;
 * undefined if the file did not exist. The path can lead to another namespace a moment
 * later, so code that opens it must compare the IDs.
 */
export function findNetnsId(args: Pick<CmdArgs, "netns">): string | undefined {
  if (!seen.has(args)) seen.set(args, findFileId(args.netns));
  return seen.get(args);
}

/**
 * Reports whether a file is a namespace. All namespaces are on one device. A path such
 * as /proc/PID/fd/7 can lead to a pidfd, which setns(2) accepts as the namespace of its
 * process.
 *
 * @param id As {@linkcode findNetnsId} returns it
 */
export function isNamespace(id: string | undefined): boolean {
  const [device, own] = [id, findHostId(OWN_NETNS)]
    .map((id) => id?.slice(0, id.indexOf(":")));
  return device !== undefined && device === own;
}

/** Makes a call of another plugin see what its caller saw, by the same path. */
export function shareNetnsId(
  caller: Pick<CmdArgs, "netns"> | undefined,
  args: Pick<CmdArgs, "netns">,
): void {
  if (caller?.netns === args.netns && args.netns !== "") {
    seen.set(args, findNetnsId(caller));
  }
}

/**
 * Reports whether CNI_NETNS is the plugin's own namespace although it must not be:
 * a path such as /proc/PID/ns/net whose PID was reused by a process on the host.
 * False for a namespace that does not exist.
 *
 * @param hostNetns Path of the plugin's own namespace
 * @throws {CniError} 8 if the plugin's own namespace cannot be read
 */
export function isOwnNetns(
  args: Pick<CmdArgs, "netns" | "netnsOverride">,
  hostNetns: string,
): boolean {
  if (args.netnsOverride || args.netns === "") return false;
  const own = findHostId(hostNetns);
  if (own === undefined) {
    throw new CniError(
      ErrorCode.InvalidNetns,
      `Cannot read the plugin's own network namespace "${hostNetns}"`,
    );
  }
  return findNetnsId(args) === own;
}
