/**
 * Output files of the tool.
 *
 * @module
 */

import { dirname, resolve } from "@std/path/posix";
import { CniError, ErrorCode } from "../base/error.ts";
import { unlessMissing, withIoFailure } from "../base/files/io.ts";
import { replaceGivenFile } from "../ffi/file/given_file.ts";
import type { CniCall } from "./flags.ts";
import { UsageError } from "../base/command_line/usage_error.ts";

/**
 * Finds the file for `--output` and `--write`.
 *
 * @param file The input file
 * @returns Undefined for stdout
 * @throws {UsageError} If the flags contradict each other, or would silently
 *   replace the input
 */
export function findOutputPath(
  call: CniCall,
  file: string,
): string | undefined {
  const output = call.flags.output;
  if (call.flags.write) {
    if (output === undefined) return file;
    throw contradiction("--write names a different file than --output");
  }
  if (output === undefined || output === "-") return undefined;
  if (followLinks(output) !== followLinks(file)) return output;
  throw contradiction(`to replace "${file}" itself, use --write`);
}

function contradiction(problem: string): UsageError {
  return new UsageError(`Cannot choose the file to write: ${problem}`);
}

/** Resolves a path; returns it unchanged if it does not exist. */
function followLinks(path: string): string {
  try {
    return Deno.realPathSync(path);
  } catch {
    return path;
  }
}

/**
 * Refuses file names that runtimes read as bare plugins. Runtimes that use the
 * Go library would then find no network at all.
 *
 * @throws {CniError} 7 If it has such a name
 */
export function checkTarget(path: string): void {
  if (!/\.(conf|json)$/.test(path)) return;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot write a list of plugins to "${path}": runtimes expect lists in ` +
      "*.conflist, and single plugins in *.conf and *.json",
  );
}

/**
 * Requires the directory of a file to write: a missing one is taken for a typing
 * error.
 *
 * @throws {CniError} 5 If it does not exist
 */
export function requireDirectoryOf(path: string): void {
  const directory = dirname(resolve(path));
  withIoFailure(`write "${path}"`, () => {
    const info = unlessMissing(() => Deno.statSync(directory));
    if (info === undefined) {
      throw new Error(`the directory "${directory}" does not exist`);
    }
    if (!info.isDirectory) throw new Error(`"${directory}" is not a directory`);
  });
}

/**
 * Writes a file atomically; or to a pipe or a device. Keeps the mode of an
 * existing file, and follows links, except links of other users.
 *
 * @throws {CniError} 5 If it cannot be written
 */
export function writeTarget(path: string, text: string): void {
  requireDirectoryOf(path);
  const bytes = new TextEncoder().encode(text);
  withIoFailure(
    `write "${path}"`,
    () =>
      isOwnStream(path)
        ? Deno.writeFileSync(path, bytes)
        : replaceGivenFile(path, bytes),
  );
}

/** Reports whether a path is a stream of this process, such as `/dev/stdout`. */
function isOwnStream(path: string): boolean {
  return /^\/(dev\/(stdout|stderr|fd\/\d+)|proc\/self\/fd\/\d+)$/.test(path);
}
