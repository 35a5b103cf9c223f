/**
 * Finding a plugin's executable in CNI_PATH.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { CniError, ErrorCode } from "../../base/error.ts";
import type { Log } from "../../base/log/log.ts";
import { fileIdOf } from "../../base/files/same_file.ts";

/** A plugin that was not started: it has changed nothing. */
export class PluginNotStarted extends CniError {}

/** The longest file name, in bytes. Source: include/uapi/linux/limits.h `NAME_MAX`. */
const NAME_MAX = 255;

/** Reports whether a directory can contain a plugin of a type, installed or not. */
export function canBePlugin(type: string): boolean {
  return !["", ".", ".."].includes(type) && !/[/\0]/.test(type) &&
    new TextEncoder().encode(type).length <= NAME_MAX;
}

/**
 * Returns the reason why no ADD can have run a plugin of a type, or undefined if an ADD
 * can have run it.
 *
 * @param caller The type of the plugin that delegates to it
 */
export function findImpossible(
  type: string,
  caller?: string,
): string | undefined {
  if (type === caller) return "it would call itself";
  return canBePlugin(type) ? undefined : "no file can have this name";
}

/** A plugin whose ADD is to be undone by DEL or GC. */
export interface ToUndo {
  readonly type: string;
  /** The result of {@linkcode findImpossible}. */
  readonly problem: string | undefined;
  /** Whether ADD left traces, such as a cached result. */
  readonly isAdded: boolean;
}

/**
 * Reports whether DEL or GC skips a plugin because no ADD can have run it, and logs a
 * warning. If ADD left traces, the configuration has changed since, and nothing is
 * skipped.
 */
export function isNothingToUndo(
  { type, problem, isAdded }: ToUndo,
  log: Pick<Log, "warn">,
): boolean {
  if (problem === undefined || isAdded) return false;
  log.warn("Nothing to undo: no ADD can have run this plugin", {
    type,
    problem,
  });
  return true;
}

/** Splits CNI_PATH. Drops empty elements, which would mean the current directory. */
export function splitPath(path: string): string[] {
  return path.split(":").filter((directory) => directory !== "");
}

/**
 * Finds the first regular file with that name. Does not check whether it is
 * executable.
 *
 * Source: containernetworking/cni pkg/invoke/find.go `FindInPath`.
 *
 * @param type Name of the plugin; not a path
 * @param directories Directories to search, in order
 * @returns The executable's path
 * @throws {PluginNotStarted} 7 if the name is not a file name, 4 without
 *   directories, 999 if the file is not found
 */
export function findExecutable(
  type: string,
  directories: readonly string[],
): string {
  return findPluginFile(type, directories).path;
}

/** A plugin's executable. */
export interface PluginFile {
  readonly path: string;
  /** Identifies the file, as `findFileId` does. */
  readonly id: string;
}

/** Does the same as {@linkcode findExecutable}, and identifies the file. */
export function findPluginFile(
  type: string,
  directories: readonly string[],
): PluginFile {
  if (type === "") {
    throw new PluginNotStarted(
      ErrorCode.InvalidNetworkConfig,
      "no plugin name provided",
    );
  }
  if (type.includes("/")) {
    throw new PluginNotStarted(
      ErrorCode.InvalidNetworkConfig,
      `invalid plugin name: ${type}`,
    );
  }
  if (directories.length === 0) {
    throw new PluginNotStarted(
      ErrorCode.InvalidEnvironment,
      "no paths provided",
    );
  }
  for (const directory of directories) {
    const path = pathIn(directory, type);
    const id = findRegularFileId(path);
    if (id !== undefined) return { path, id };
  }
  throw new PluginNotStarted(
    ErrorCode.Internal,
    `failed to find plugin "${type}" in path [${directories.join(" ")}]`,
  );
}

/** Joins a path that contains a slash; without one, PATH would be searched. */
function pathIn(directory: string, type: string): string {
  const path = join(directory, type);
  return path.includes("/") ? path : `./${path}`;
}

function findRegularFileId(path: string): string | undefined {
  try {
    const info = Deno.statSync(path);
    return info.isFile ? fileIdOf(info) : undefined;
  } catch {
    return undefined;
  }
}
