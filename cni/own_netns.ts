/**
 * Telling a sandbox from the namespace that the plugin itself is in.
 *
 * @module
 */

import type { CmdArgs } from "./args.ts";
import { CniError, ErrorCode } from "./error.ts";
import { findFileId } from "./same_file.ts";

/**
 * Says whether CNI_NETNS is the plugin's own namespace and may not be: a path
 * like /proc/PID/ns/net whose PID now belongs to another process on the host.
 * A namespace that is not there is no one's.
 *
 * @param hostNetns Path of the plugin's own namespace
 * @throws {CniError} 8 if the plugin's own namespace cannot be read
 */
export function isOwnNetns(
  args: Pick<CmdArgs, "netns" | "netnsOverride">,
  hostNetns: string,
): boolean {
  if (args.netnsOverride || args.netns === "") return false;
  const own = findFileId(hostNetns);
  if (own === undefined) {
    throw new CniError(
      ErrorCode.InvalidNetns,
      `Cannot read the plugin's own network namespace "${hostNetns}"`,
    );
  }
  return findFileId(args.netns) === own;
}
