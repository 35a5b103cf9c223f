/**
 * Finding a plugin's executable in CNI_PATH.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { CniError, ErrorCode } from "../error.ts";

/** Splits CNI_PATH. Drops empty elements, which would mean the current folder. */
export function splitPath(path: string): string[] {
  return path.split(":").filter((folder) => folder !== "");
}

/**
 * Finds the first regular file with that name. Does not check whether it is
 * executable.
 *
 * Source: containernetworking/cni pkg/invoke/find.go `FindInPath`.
 *
 * @param type Name of the plugin; not a path
 * @param folders Folders to search, in order
 * @returns The executable's path
 * @throws {CniError} 7 if the name is not a file name, 999 if the file is not found
 */
export function findPlugin(type: string, folders: readonly string[]): string {
  if (type === "") {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      "no plugin name provided",
    );
  }
  if (type.includes("/")) {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `invalid plugin name: ${type}`,
    );
  }
  if (folders.length === 0) {
    throw new CniError(ErrorCode.InvalidEnvironment, "no paths provided");
  }
  const found = folders.map((folder) => pathIn(folder, type)).find(isFile);
  if (found === undefined) {
    throw new CniError(
      ErrorCode.Internal,
      `failed to find plugin "${type}" in path [${folders.join(" ")}]`,
    );
  }
  return found;
}

/** Joins a path that contains a slash; without one, PATH would be searched. */
function pathIn(folder: string, type: string): string {
  const path = join(folder, type);
  return path.includes("/") ? path : `./${path}`;
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}
