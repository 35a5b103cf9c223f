/**
 * What a process answers without a plugin: the little that VERSION needs, since
 * runtimes ask for it often.
 *
 * @module
 */

import { writeStderr, writeStdout } from "./stdio.ts";
import { CURRENT_VERSION } from "./version.ts";

/**
 * Formats the answer to VERSION.
 *
 * Source: containernetworking/cni pkg/skel/skel.go, pkg/version/plugin.go.
 *
 * @param supportedVersions Those that the plugin serves
 */
export function formatVersions(supportedVersions: readonly string[]): string {
  return JSON.stringify({ cniVersion: CURRENT_VERSION, supportedVersions }) +
    "\n";
}

/**
 * Prints what a plugin came to, and ends the process. What cannot be printed is
 * a failure; undoing what was done is then the runtime's, by DEL.
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
