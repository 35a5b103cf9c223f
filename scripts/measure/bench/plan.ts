/**
 * What is measured, by the options of the command line: cells, each one situation
 * in which all contestants are measured in turns.
 *
 * @module
 */

import { parseArgs } from "@std/cli/parse-args";
import { resolve } from "@std/path/posix";
import { ROOT } from "../../compile/project.ts";
import { type ChainName, CHAINS, type Verb } from "./route.ts";

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
  /** Rounds that count, 1 to 1000; undefined leaves the choice to the plan. */
  readonly rounds?: number | undefined;
  /** Measures only cells with one of these texts in their name. */
  readonly filter: string;
  /** Results of which the documentation's figures are made, absolute; undefined to measure. */
  readonly figures?: string | undefined;
  /** Where the results are written, absolute. */
  readonly out: string;
}

const USAGE = "usage: deno task bench [--quick] [--rounds N] " +
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
    rounds,
    filter = "",
    out,
    figures,
    ...more
  } = parseArgs([...args], {
    string: ["bin", "peer", "go-multus", "rounds", "filter", "out", "figures"],
    boolean: ["json", "quick"],
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
    rounds: rounds === undefined ? undefined : Number(rounds),
    filter,
    ...figures ? { figures: resolve(figures) } : {},
    out: resolve(out ?? `${ROOT}dist/bench`),
  };
}

/** One situation. */
export interface Cell {
  readonly name: string;
  readonly chain: ChainName;
  readonly masquerade: boolean;
  /** Containers that are on the node already. */
  readonly containers: number;
  /** Attachments at the same time. */
  readonly parallel: number;
  /** Whether only their end is measured: one after the other, and all at once. */
  readonly isDrain?: boolean;
  readonly verbs: readonly Verb[];
}

/** Cells that are measured on the same nodes, in order of their containers. */
export interface Scenario {
  readonly chain: ChainName;
  readonly masquerade: boolean;
  readonly cells: readonly Cell[];
}

/** How often everything is done. */
export interface Rounds {
  /** Before those that count. */
  readonly warmUp: number;
  /** Of one attachment at a time. */
  readonly single: number;
  /** Of several at the same time. */
  readonly batch: number;
  /** For the peak of memory. */
  readonly peak: number;
}

/** All that is measured. */
export interface Plan {
  readonly rounds: Rounds;
  /** Whether to measure what it costs to start a process. */
  readonly start: boolean;
  readonly scenarios: readonly Scenario[];
}

/** The name of the cell of starts alone. */
export const START = "start of a process";
const ALL: readonly Verb[] = ["ADD", "CHECK", "DEL"];

/** Numbers of containers, and how many at once on an empty node. */
interface Dimensions {
  readonly levels: readonly number[];
  readonly widths: readonly number[];
}

function chooseDimensions({ quick }: PlanInput): Dimensions {
  return quick
    ? { levels: [0, 50], widths: [4] }
    : { levels: [0, 50, 500], widths: [4, 16, 64] };
}

function chooseRounds({ quick, rounds }: PlanInput): Rounds {
  const single = rounds ?? (quick ? 3 : 20);
  return {
    warmUp: quick ? 1 : 2,
    single,
    batch: Math.max(2, Math.ceil(single / 4)),
    peak: quick ? 1 : 3,
  };
}

/** Chains with and without masquerade, in order. */
type Variant = readonly [chain: ChainName, masquerade: boolean];

const VARIANTS: readonly Variant[] = [
  ["host-local", false],
  ["ptp", false],
  ["ptp", true],
  ["bridge", false],
  ["pod", false],
  ["pod", true],
  ["ports", true],
];

/** The kubelet's default for the pods of a node. */
const DRAINED = 110;

/** The input of a plan. */
export type PlanInput = Pick<BenchOptions, "quick" | "rounds" | "filter">;

/**
 * Plans what to measure.
 *
 * @param isThere Whether we have all executables of a chain
 */
export function planBench(
  input: PlanInput,
  isThere: (chain: ChainName) => boolean,
): Plan {
  const dimensions = chooseDimensions(input);
  const variants = VARIANTS.filter(([chain]) => isThere(chain));
  const isWanted = (name: string): boolean => name.includes(input.filter);
  return {
    rounds: chooseRounds(input),
    start: isWanted(START),
    scenarios: variants.map(([chain, masquerade]) => ({
      chain,
      masquerade,
      cells: listCells([chain, masquerade], dimensions)
        .filter(({ name }) => isWanted(name)),
    })).filter(({ cells }) => cells.length > 0),
  };
}

function listCells(
  [chain, masquerade]: Variant,
  { levels, widths }: Dimensions,
): Cell[] {
  const sizes = [
    ...levels.slice(0, 1).flatMap((containers) =>
      [1, ...widths].map((parallel) => ({ containers, parallel }))
    ),
    ...levels.slice(1).map((containers) => ({ containers, parallel: 1 })),
  ];
  const cells: Omit<Cell, "name">[] = sizes
    .map((size) => ({ chain, masquerade, ...size, verbs: ALL }));
  if (chain === "pod" && masquerade) {
    const size = { containers: 0, parallel: DRAINED, isDrain: true };
    cells.splice(1, 0, { chain, masquerade, ...size, verbs: ALL });
  }
  return cells.map((cell) => ({ name: nameCell(cell), ...cell }));
}

/** Names a cell for people and for `--filter`. */
function nameCell(
  { chain, masquerade, containers, parallel, isDrain }: Omit<Cell, "name">,
): string {
  const width = isDrain ? `drain of ${parallel}` : `${parallel} at once`;
  return [
    chain,
    ...masquerade ? ["masquerade"] : [],
    `${containers} containers`,
    ...parallel > 1 ? [width] : [],
  ].join(", ");
}

/** Explains the name of a chain: its plugins, where the name does not say them. */
export function explainChain(chain: ChainName): string {
  const plugins: readonly string[] = CHAINS[chain];
  return plugins.length === 1 ? chain : `${chain} (${plugins.join(", ")})`;
}
