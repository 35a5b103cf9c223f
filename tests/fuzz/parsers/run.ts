/**
 * Runs parsers with random inputs.
 *
 * @module
 */

import * as fc from "fast-check";
import corpus from "./corpus.json" with { type: "json" };
import { listByteParsers } from "./bytes.ts";
import type { Parser } from "./parser.ts";
import { listTextParsers } from "./texts.ts";

/** How to run a parser. */
export interface FuzzOptions {
  /** Random inputs, 1 or more. */
  readonly runs: number;
  readonly seed: number;
}

/** Inputs that failed once: text, or bytes in hexadecimal. */
const CORPUS = corpus as Readonly<
  Record<string, readonly (string | { readonly hex: string })[]>
>;

/**
 * Lists the parsers.
 *
 * @param directory For files, in memory at best
 */
export function listParsers(directory: string): Parser[] {
  return [...listTextParsers(directory), ...listByteParsers()] as Parser[];
}

/**
 * Runs a parser with the inputs that failed once, and with random ones.
 *
 * @throws {Error} With the smallest input that fails, its seed and the reason
 */
export async function fuzz(
  { name, inputs, run }: Parser,
  { runs, seed }: FuzzOptions,
): Promise<void> {
  const known = (CORPUS[name] ?? []).map((one): [unknown] =>
    typeof one === "string" ? [one] : [Uint8Array.fromHex(one.hex)]
  );
  const property = fc.asyncProperty(inputs, async (input) => {
    await run(input);
  });
  await fc.assert(property, { numRuns: runs, seed, examples: known });
}
