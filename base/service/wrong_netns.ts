/**
 * The exit of a daemon that is in the wrong network namespace.
 *
 * @module
 */

import { describeError } from "../error.ts";
import { onWrongNetns } from "../../ffi/own_netns.ts";

/**
 * Reports to a service manager that the program itself failed, not its input.
 *
 * Source: sysexits(3) `EX_SOFTWARE`.
 */
const EXIT_CODE = 70;

/**
 * Makes this process report to a service manager that its thread cannot return from a
 * namespace, and exit.
 *
 * @param onStderr Receives the reason
 */
export function exitInWrongNetns(onStderr: (text: string) => void): void {
  onWrongNetns((error) => report(describeError(error), onStderr));
}

/** Ends this process, because any further step would run in the wrong namespace. */
export function exitForWrongNetns(
  reason: string,
  onStderr: (text: string) => void,
): never {
  Deno.exit(report(reason, onStderr));
}

function report(reason: string, onStderr: (text: string) => void): number {
  onStderr(`The daemon exits immediately: ${reason}\n`);
  return EXIT_CODE;
}
