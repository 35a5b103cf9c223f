/**
 * Paths as a container writes them that has the node's root mounted on /host.
 *
 * @module
 */

import { ifPossible } from "../../cni/io_failure.ts";

/**
 * Returns a path as the node has it. The Go version's thick daemon and its
 * installer write the paths of their containers into the configuration, such as
 * /host/etc/cni/net.d/10-pods.conflist.
 *
 * @returns The path without /host, unless the node has it as it is written
 */
export function nodePath(
  path: string,
  isThere: (path: string) => boolean = exists,
): string {
  if (!path.startsWith("/host/") || isThere(path)) return path;
  return path.slice("/host".length);
}

function exists(path: string): boolean {
  return ifPossible(() => Deno.statSync(path)) !== undefined;
}
