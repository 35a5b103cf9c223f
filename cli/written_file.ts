/**
 * Output files of the tool.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { CniError, ErrorCode } from "../cni/error.ts";
import { withIoFailure } from "../cni/files/io.ts";
import { replaceFile } from "../cni/files/replace.ts";
import type { CniCall } from "./flags.ts";
import { UsageError } from "./program/usage_error.ts";

/**
 * Finds the file for `--output` and `--write`.
 *
 * @param file The input file
 * @returns Undefined for stdout
 * @throws {UsageError} If the flags contradict each other, or would silently
 *   replace the input
 */
export function findTarget(
  call: CniCall,
  file: string,
): string | undefined {
  const output = call.flags.output;
  if (call.flags.write) {
    if (output === undefined) return file;
    throw contradiction("--write names another file than --output");
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
      "*.conflist, and bare plugins in *.conf and *.json",
  );
}

/** Modes of a new file and directory: readable by all, like configurations. */
const NEW_MODE = 0o644, NEW_DIRECTORY_MODE = 0o755;

/**
 * Writes a file atomically. Keeps the mode of an existing file, follows a link,
 * and creates directories as needed.
 *
 * @throws {CniError} 5 If it cannot be written
 */
export function writeTarget(path: string, text: string): void {
  const real = followLinks(path);
  const bytes = new TextEncoder().encode(text);
  withIoFailure(`write "${path}"`, () => {
    Deno.mkdirSync(dirname(real), {
      recursive: true,
      mode: NEW_DIRECTORY_MODE,
    });
    replaceFile(real, bytes, findMode(real) ?? NEW_MODE);
  });
}

function findMode(path: string): number | undefined {
  try {
    const { mode } = Deno.statSync(path);
    return mode === null ? undefined : mode & 0o777;
  } catch {
    return undefined;
  }
}
