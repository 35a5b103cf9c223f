/**
 * The files of a directory.
 *
 * @module
 */

import { ifPossible } from "./io.ts";

/** Lists a directory's files; empty if it does not exist. */
export function listFiles(directory: string): { name: string; since: Date }[] {
  const entries = ifPossible(() => [...Deno.readDirSync(directory)]) ?? [];
  return entries.filter(({ isFile }) => isFile).flatMap(({ name }) => {
    const since = ifPossible(() => Deno.statSync(`${directory}/${name}`).mtime);
    return since ? [{ name, since }] : [];
  }).sort((left, right) => left.name < right.name ? -1 : 1);
}
