/**
 * The files of a directory.
 *
 * @module
 */

import { ifPossible } from "./io.ts";

/** Lists a directory's files; empty if it does not exist. */
export function listFiles(folder: string): { name: string; since: Date }[] {
  const entries = ifPossible(() => [...Deno.readDirSync(folder)]) ?? [];
  return entries.filter(({ isFile }) => isFile).flatMap(({ name }) => {
    const since = ifPossible(() => Deno.statSync(`${folder}/${name}`).mtime);
    return since ? [{ name, since }] : [];
  }).sort((left, right) => left.name < right.name ? -1 : 1);
}
