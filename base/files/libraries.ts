/**
 * The libraries next to an executable, which it needs on nodes without glibc.
 *
 * ```
 * /opt/cni/bin/.cni-lib → .cni-lib-a1b2c3   what executables look for
 * /opt/cni/bin/.cni-lib-a1b2c3/libc.so.6    …
 * ```
 *
 * The link replaces all of them together, because an executable that finds libraries
 * of two versions crashes.
 *
 * @module
 */

import { dirname, join } from "@std/path/posix";
import { CniError, ErrorCode } from "../error.ts";
import { exists, ifPossible, removeIfThere, unlessMissing } from "./io.ts";
import { replaceByLink } from "./replace.ts";
import { haveSameContent } from "./same_content.ts";

/** The directory next to an executable, or a link to it. */
export const LIBRARY_DIRECTORY = ".cni-lib";

/** The prefix of directory names to which the link can lead. */
const PREFIX = `${LIBRARY_DIRECTORY}-`;

/** The library that identifies the directory. */
const C_LIBRARY = "libc.so.6";

/** The change that copying the libraries makes. */
export type LibraryChange = "installed" | "updated" | "unchanged";

/**
 * Returns what {@linkcode copyLibraries} would change; undefined if an
 * executable has no libraries next to it.
 *
 * @throws {CniError} 5 if a file of a different program is in their place
 */
export async function compareLibraries(
  executable: string,
  directory: string,
): Promise<LibraryChange | undefined> {
  const source = findLibraries(executable);
  if (source === undefined) return undefined;
  const target = join(directory, LIBRARY_DIRECTORY);
  if (unlessMissing(() => Deno.lstatSync(target)) === undefined) {
    return "installed";
  }
  if (!isOurs(target)) {
    throw new CniError(
      ErrorCode.IoFailure,
      `Cannot replace "${target}": it belongs to another program`,
    );
  }
  const found = listFiles(target) ?? [];
  const names = listFiles(source) ?? [];
  if (`${names}` !== `${found}`) return "updated";
  for (const name of names) {
    if (!await haveSameContent(join(source, name), join(target, name))) {
      return "updated";
    }
  }
  return "unchanged";
}

/**
 * Copies the libraries of an executable to another directory. The caller must prevent
 * concurrent copies.
 *
 * @throws {Deno.errors.PermissionDenied} If this process is not permitted to write
 * them; other errors of the file system are thrown unchanged
 */
export async function copyLibraries(
  executable: string,
  directory: string,
): Promise<LibraryChange | undefined> {
  const source = findLibraries(executable);
  const change = await compareLibraries(executable, directory);
  if (source === undefined) return change;
  const link = join(directory, LIBRARY_DIRECTORY);
  if (change === "unchanged") {
    // A crash might have left other copies.
    removeCopies(directory, ifPossible(() => Deno.readLinkSync(link)));
    return change;
  }
  const copy = await Deno.makeTempDir({ dir: directory, prefix: PREFIX });
  try {
    await copyFiles(source, copy);
  } catch (error) {
    await Deno.remove(copy, { recursive: true }).catch(() => {});
    throw error;
  }
  if (unlessMissing(() => Deno.lstatSync(link))?.isDirectory) {
    // A directory, as in an archive, which a link cannot replace.
    await Deno.rename(link, `${copy}.before`);
  }
  const name = copy.slice(directory.length + 1);
  replaceByLink(link, name);
  removeCopies(directory, name);
  return change;
}

async function copyFiles(source: string, copy: string): Promise<void> {
  await Deno.chmod(copy, 0o755);
  for (const name of listFiles(source) ?? []) {
    await Deno.copyFile(join(source, name), join(copy, name));
    using file = await Deno.open(join(copy, name), { read: true });
    await file.sync();
  }
}

/** Removes the libraries from a directory. Reports whether there were any. */
export function removeLibraries(directory: string): boolean {
  const link = join(directory, LIBRARY_DIRECTORY);
  const isThere = isOurs(link);
  if (isThere && Deno.lstatSync(link).isSymlink) removeIfThere(link);
  else if (isThere) Deno.removeSync(link, { recursive: true });
  removeCopies(directory);
  return isThere;
}

/**
 * Reports whether a path is a directory of libraries, as in an archive, or the link
 * that {@linkcode copyLibraries} creates.
 */
function isOurs(path: string): boolean {
  const target = ifPossible(() => Deno.readLinkSync(path));
  return target?.startsWith(PREFIX) ??
    exists(join(path, C_LIBRARY));
}

function removeCopies(directory: string, except?: string): void {
  for (const { name, isDirectory } of [...Deno.readDirSync(directory)]) {
    if (!isDirectory || !name.startsWith(PREFIX) || name === except) continue;
    Deno.removeSync(join(directory, name), { recursive: true });
  }
}

function findLibraries(executable: string): string | undefined {
  const path = join(
    dirname(Deno.realPathSync(executable)),
    LIBRARY_DIRECTORY,
  );
  return listFiles(path) === undefined ? undefined : path;
}

function listFiles(directory: string): string[] | undefined {
  return unlessMissing(() =>
    [...Deno.readDirSync(directory)].map(({ name }) => name).sort()
  );
}
