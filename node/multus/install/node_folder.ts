/**
 * Folders of the node.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../cni/error.ts";
import { ifPossible } from "../../../cni/io_failure.ts";

/**
 * Sees to it that a folder is there. It is not made: in a container that does
 * not have the node's folder mounted it would not be the node's.
 *
 * @throws {CniError} 5 if it is not
 */
export function requireFolder(path: string): void {
  if (isFolder(path)) return;
  throw new CniError(
    ErrorCode.IoFailure,
    `Cannot install into "${path}": there is no such folder`,
  );
}

/** Says whether there is a folder; a path that cannot be looked at is none. */
export function isFolder(path: string): boolean {
  return ifPossible(() => Deno.statSync(path).isDirectory) ?? false;
}
