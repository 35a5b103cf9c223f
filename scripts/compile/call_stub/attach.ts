/**
 * Puts the call stub into an executable, to run before what is in it.
 *
 * Reason: deno takes some 15 ms to start, and a call that a node daemon runs does
 * not need it.
 * Gain: 15 ms for each call that a node daemon runs.
 * Off: `--no-call-stub`; deno then asks the daemon.
 *
 * @module
 */

import { type Machine, parseElf } from "../../mkdenort/elf.ts";
import { addCode } from "../add_code.ts";
import { Frame } from "./frame.ts";
import { DENO_ENTRY } from "./give_back.ts";
import { listOperations, type Operation } from "./listing.ts";
import { createProcessor } from "./processors.ts";
import { type StubFacts, writeStub } from "./stub.ts";
import { Writer } from "./writer.ts";

/** Assembles the stub. */
export interface StubPlace extends StubFacts {
  /** Address of its first instruction: the start of a page. */
  readonly origin: number;
  /** Where the executable used to start. */
  readonly entry: number;
}

/** Returns the stub's machine code, which begins at `origin`. */
export function assembleCallStub(
  machine: Machine,
  { origin, entry, build }: StubPlace,
): Uint8Array<ArrayBuffer> {
  const processor = createProcessor(machine, origin);
  const { code } = processor;
  code.label(DENO_ENTRY, entry);
  writeStub(new Writer(processor), code, { build });
  return code.assemble();
}

/** Lists what is in the stub. */
export function listCallStub(
  machine: Machine,
  { origin, entry, build }: StubPlace,
): Operation[] {
  return listOperations(machine, origin, (w, code) => {
    code.label(DENO_ENTRY, entry);
    writeStub(w, code, { build });
  }, Frame);
}

/**
 * Returns a copy of a position-independent executable that runs the stub first. The
 * same bytes always give the same result.
 *
 * @throws {Error} If it is not as expected
 */
export function attachCallStub(
  bytes: Uint8Array,
  facts: StubFacts,
): Uint8Array<ArrayBuffer> {
  const elf = parseElf(bytes);
  return addCode(
    elf,
    (origin) =>
      assembleCallStub(elf.machine, { ...facts, origin, entry: elf.entry }),
  );
}
