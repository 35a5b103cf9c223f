/**
 * Files that the tool writes in place of others.
 *
 * @module
 */

import { CniError, ErrorCode } from "../cni/error.ts";
import { withIoFailure } from "../cni/io_failure.ts";
import { replaceFile } from "../cni/libcni/replace_file.ts";
import { type CommandCall, findFlag } from "./command.ts";
import { UsageError } from "./usage_error.ts";

/**
 * Finds the file that `--output` and `--write` name.
 *
 * @param file The one that was read
 * @returns Undefined for stdout
 * @throws {UsageError} If they contradict each other, or would replace the file
 *   without a word of it
 */
export function findTarget(
  call: CommandCall,
  file: string,
): string | undefined {
  const output = findFlag(call, "output");
  if (call.flags.has("write")) {
    if (output === undefined) return file;
    throw contradiction("--write names another file than --output");
  }
  if (output === undefined || output === "-") return undefined;
  if (followLinks(output) !== followLinks(file)) return output;
  throw contradiction(`to replace "${file}" itself, say --write`);
}

function contradiction(problem: string): UsageError {
  return new UsageError(`Cannot choose the file to write: ${problem}`);
}

/** Where a path leads; the path itself if there is nothing. */
function followLinks(path: string): string {
  try {
    return Deno.realPathSync(path);
  } catch {
    return path;
  }
}

/**
 * Refuses a name by which runtimes take a list for the configuration of a bare
 * plugin: those with the Go library would then have no network at all.
 *
 * @throws {CniError} 7 If it is one
 */
export function checkTarget(path: string): void {
  if (!/\.(conf|json)$/.test(path)) return;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot write a list of plugins to "${path}": runtimes expect one in ` +
      "*.conflist, and a bare plugin in *.conf and *.json",
  );
}

/** Who may read a file that is new: everybody, as configurations are. */
const NEW_MODE = 0o644;

/**
 * Writes a file, whole or not at all. One that was there keeps its mode, and a
 * link that led to it stays.
 *
 * @throws {CniError} 5 If it cannot be written
 */
export function writeTarget(path: string, text: string): void {
  const real = followLinks(path);
  const bytes = new TextEncoder().encode(text);
  withIoFailure(
    `write "${path}"`,
    () => replaceFile(real, bytes, findMode(real) ?? NEW_MODE),
  );
}

function findMode(path: string): number | undefined {
  try {
    const { mode } = Deno.statSync(path);
    return mode === null ? undefined : mode & 0o777;
  } catch {
    return undefined;
  }
}
