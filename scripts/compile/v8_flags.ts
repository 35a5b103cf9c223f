/**
 * How V8 runs the executables.
 *
 * @module
 */

/**
 * Flags for a program that usually lives for some 30 ms.
 *
 * - without helper threads, for which the main thread waits longer than they help
 * - without optimizing the registers of the interpreter's code: nothing runs often
 *   enough to win back what that takes
 * - optimizing only what has run 2000 times: with V8's 400, a process of one call
 *   takes 7 % longer, and the daemon is not faster for it
 * - without collecting garbage before there are 16 MiB of it, which is never
 * - compiling the parts of the script that are loaded, which `eval` does, at
 *   once and not function by function, for most of each is run
 */
export const V8_FLAGS: readonly string[] = [
  "--single-threaded",
  "--no-ignition-reo",
  "--invocation-count-for-maglev=2000",
  "--min-semi-space-size=16",
  "--max-semi-space-size=16",
  "--no-lazy-eval",
];
