/**
 * Answers that need no plugin code. VERSION takes this path, because runtimes call
 * it often.
 *
 * @module
 */

import { writeStderr, writeStdout } from "../../base/process/stdio.ts";
import { CURRENT_VERSION } from "../version.ts";
import { ASK_COMMANDS, REPAIR } from "./variables.ts";

/**
 * Formats the answer to VERSION.
 *
 * Source: SPEC.md, section 5, "VERSION Success". The Go library always answers
 * with its own newest version.
 *
 * @param supportedVersions The versions that the plugin supports
 * @param input The input, which has the caller's version
 * @param asked What a tool asks in the environment
 */
export function formatVersions(
  supportedVersions: readonly string[],
  input?: Uint8Array,
  asked?: string,
): string {
  const cniVersion = findVersion(input) ?? CURRENT_VERSION;
  const commands = asked === ASK_COMMANDS ? [REPAIR] : undefined;
  return JSON.stringify({ cniVersion, supportedVersions, commands }) + "\n";
}

/** A version of the specification, including future versions. */
const VERSION = /^\d+\.\d+\.\d+$/;

/** Returns the version of an input; undefined if it has none. */
function findVersion(input: Uint8Array | undefined): string | undefined {
  if (input === undefined || input.length === 0) return undefined;
  try {
    const { cniVersion } = JSON.parse(new TextDecoder().decode(input));
    return VERSION.test(cniVersion) ? cniVersion : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Prints a plugin's output and exits. Output that cannot be printed is a failure;
 * the runtime then cleans up with DEL.
 *
 * @param output `exitCode` from 0 to 255
 */
export function printAndExit(
  { stdout, exitCode }: { readonly stdout: string; readonly exitCode: number },
): never {
  const problem = writeStdout(stdout);
  if (problem === undefined) Deno.exit(exitCode);
  writeStderr(`Cannot write to stdout: ${problem}\n`);
  Deno.exit(1);
}
