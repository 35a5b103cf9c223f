/**
 * Puts the call stub into an executable, to run before what is in it: the program
 * `launcher/call.c`, which has a node daemon run the call.
 *
 * Reason: deno takes some 15 ms to start, and a call that a node daemon runs does
 * not need it.
 * Gain: 15 ms for each call that a node daemon runs.
 * Off: `--no-call-stub`; deno then asks the daemon.
 *
 * @module
 */

import { type Machine, parseElf } from "../mkdenort/elf.ts";
import { withFacts } from "../mkdenort/object.ts";
import { addCode, readLauncher } from "./add_code.ts";

/**
 * Returns the stub's machine code.
 *
 * @param toEngine How many bytes behind its first instruction the executable used to start
 * @param identity Identifies the executable's code, as `buildIdentity` does
 */
export function makeCallStub(
  machine: Machine,
  toEngine: number,
  identity: string,
): Uint8Array<ArrayBuffer> {
  return withFacts(readLauncher("call", machine), {
    numbers: [toEngine],
    texts: [[identity, identity.length + 1]],
  });
}

/**
 * Returns a copy of a position-independent executable that runs the stub first. The
 * same bytes always give the same result.
 *
 * @throws {Error} If it is not as expected
 */
export function attachCallStub(
  bytes: Uint8Array,
  identity: string,
): Uint8Array<ArrayBuffer> {
  const elf = parseElf(bytes);
  return addCode(
    elf,
    (origin) => makeCallStub(elf.machine, elf.entry - origin, identity),
  );
}
