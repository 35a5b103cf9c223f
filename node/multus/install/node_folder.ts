/**
 * Checks folders of the node.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../cni/error.ts";
import { ifPossible } from "../../../cni/files/io.ts";

/**
 * Checks that a folder exists. It is not created: in a container without a
 * mount of the node's folder, the new one would be the container's.
 *
 * @throws {CniError} 5 if it does not exist
 */
export function requireFolder(path: string): void {
  if (isFolder(path)) return;
  throw new CniError(
    ErrorCode.IoFailure,
    `Cannot install into "${path}": there is no such folder`,
  );
}

/** Reports whether the path is an accessible folder. */
export function isFolder(path: string): boolean {
  return ifPossible(() => Deno.statSync(path).isDirectory) ?? false;
}
