/**
 * Answers that need no plugin code. VERSION takes this path, because runtimes call
 * it often.
 *
 * @module
 */

import { writeStderr, writeStdout } from "../process/stdio.ts";
import { CURRENT_VERSION } from "../version.ts";

/**
 * Formats the answer to VERSION.
 *
 * Source: containernetworking/cni pkg/skel/skel.go, pkg/version/plugin.go.
 *
 * @param supportedVersions The versions that the plugin supports
 */
export function formatVersions(supportedVersions: readonly string[]): string {
  return JSON.stringify({ cniVersion: CURRENT_VERSION, supportedVersions }) +
    "\n";
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
