/**
 * The end of a daemon that is in the wrong network namespace.
 *
 * @module
 */

import { describeError } from "../error.ts";
import { onWrongNetns } from "../../ffi/netns.ts";

/**
 * Tells a service manager that the program itself failed, and not its input.
 *
 * Source: sysexits(3) `EX_SOFTWARE`.
 */
const EXIT_CODE = 70;

/**
 * Ends this process as soon as its thread cannot return from a namespace.
 *
 * @param onStderr Receives the reason
 */
export function exitInWrongNetns(onStderr: (text: string) => void): void {
  onWrongNetns((error) => exitForWrongNetns(describeError(error), onStderr));
}

/** Ends this process: nothing that it did next would be right. */
export function exitForWrongNetns(
  reason: string,
  onStderr: (text: string) => void,
): never {
  onStderr(`The daemon exits immediately: ${reason}\n`);
  Deno.exit(EXIT_CODE);
}
