/**
 * The command line of `deno task bench`.
 *
 * @module
 */

import { parseArgs } from "@std/cli/parse-args";
import { resolve } from "@std/path/posix";
import { ROOT } from "../../compile/project.ts";

/** The options of the command line. */
export interface BenchOptions {
  /** Directory of our executables, absolute; undefined if they are to be built. */
  readonly bin?: string | undefined;
  /** Directories of other executables to compare with, absolute. */
  readonly peers: readonly string[];
  /** Directory of the Go version's multus, absolute. */
  readonly goMultus?: string | undefined;
  /** Whether stdout is the JSON document instead of tables. */
  readonly json: boolean;
  /** Whether a few rounds of the smaller cells are enough. */
  readonly quick: boolean;
  /** Whether to measure how costs grow with the number of containers. */
  readonly growth: boolean;
  /** Rounds that count, 1 to 1000; undefined leaves the choice to the plan. */
  readonly rounds?: number | undefined;
  /** Measures only cells with one of these texts in their name. */
  readonly filter: string;
  /** Results of which the documentation's figures are made, absolute; undefined to measure. */
  readonly figures?: string | undefined;
  /** Where the results are written, absolute. */
  readonly out: string;
}

const USAGE = "usage: deno task bench [--growth] [--quick] [--rounds N] " +
  "[--filter TEXT] [--bin DIR] [--peer DIR]... [--go-multus DIR] " +
  "[--out DIR] [--json] | --figures FILE";

/**
 * Reads the command line.
 *
 * @throws {Error} If there is something in it that we do not know
 */
export function parseOptions(args: readonly string[]): BenchOptions {
  const refuse = (what: string): Error =>
    new Error(`Cannot understand "${what}": ${USAGE}`);
  const {
    bin,
    peer,
    json,
    quick,
    growth,
    rounds,
    filter = "",
    out,
    figures,
    ...more
  } = parseArgs([...args], {
    string: ["bin", "peer", "go-multus", "rounds", "filter", "out", "figures"],
    boolean: ["json", "quick", "growth"],
    collect: ["peer"],
    unknown: (arg) => {
      throw refuse(arg);
    },
  });
  if (rounds !== undefined && !/^[1-9]\d{0,2}$|^1000$/.test(rounds)) {
    throw refuse(`--rounds ${rounds}`);
  }
  return {
    bin: bin === undefined ? undefined : resolve(bin),
    peers: peer.map((directory) => resolve(directory)),
    ...more["go-multus"] ? { goMultus: resolve(more["go-multus"]) } : {},
    json,
    quick,
    growth,
    rounds: rounds === undefined ? undefined : Number(rounds),
    filter,
    ...figures ? { figures: resolve(figures) } : {},
    out: resolve(out ?? `${ROOT}dist/bench`),
  };
}
