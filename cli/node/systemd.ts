/**
 * systemd, as far as it runs this node.
 *
 * Source: systemd.unit(5), sd_booted(3).
 *
 * @module
 */

import { ifPossible, isTaken } from "../../base/files/io.ts";
import { findFileId, isSameFile } from "../../base/files/same_file.ts";

/** The directories of units, in order of precedence. Source: systemd.unit(5). */
const UNIT_DIRECTORIES = [
  "/etc/systemd/system",
  "/run/systemd/system",
  "/usr/local/lib/systemd/system",
  "/usr/lib/systemd/system",
  "/lib/systemd/system",
];

/** Reports whether systemd runs this node, and this is its root. */
export function runsSystemd(): boolean {
  return findFileId("/run/systemd/system") !== undefined &&
    ifPossible(() => Deno.readTextFileSync("/proc/1/comm")) === "systemd\n" &&
    isSameFile("/proc/1/root", "/");
}

/** Reports whether systemd can start a unit: a masked unit is a link to /dev/null. */
export function hasUnit(
  name: string,
  directories: readonly string[] = UNIT_DIRECTORIES,
): boolean {
  const path = directories.map((directory) => `${directory}/${name}`)
    .find(isTaken);
  return path !== undefined &&
    ifPossible(() => Deno.statSync(path).isFile) === true;
}
