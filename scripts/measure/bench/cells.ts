/**
 * What is measured: cells, each one situation in which all candidates are measured
 * in turns.
 *
 * @module
 */

import { type ChainName, CHAINS } from "./route.ts";

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
  readonly drain: number;
}

/** Which cells are wanted, and how often each. */
export interface PlanInput {
  /** Whether a few rounds of the smaller cells are enough. */
  readonly quick: boolean;
  /** Rounds that count, 1 to 1000; by default, the plan chooses. */
  readonly rounds?: number | undefined;
  /** Only cells with this text in their name. */
  readonly filter: string;
  /** Numbers of containers on the node, ascending: only pods beside these are measured. */
  readonly growth?: readonly number[] | undefined;
}

/** Chooses how often everything is done. */
export function chooseRounds({ quick, growth, rounds }: PlanInput): Rounds {
  const single = rounds ?? (quick ? 3 : growth === undefined ? 20 : 8);
  return {
    warmUp: quick ? 1 : 2,
    single,
    batch: Math.max(2, Math.ceil(single / 4)),
    drain: quick ? 1 : 3,
  };
}

/** Chains with and without masquerade, in order. */
const VARIANTS: readonly (readonly [ChainName, masquerade: boolean])[] = [
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

/** Containers on the node, in the rows of docs/performance.md. */
export const GROWTH: readonly number[] = [0, 100, 250, 500, 1000, 2000];

/** Lists what to measure. */
export function planScenarios(input: PlanInput): Scenario[] {
  const { quick, filter } = input;
  if (input.growth !== undefined) {
    const cells = input.growth.map((containers) =>
      nameCell("pod", true, { containers, parallel: 1 })
    );
    return [{ chain: "pod", masquerade: true, cells }];
  }
  const levels = quick ? [50] : [50, 500];
  const widths = quick ? [4] : [4, 16, 64];
  const empty = { containers: 0, parallel: 1 };
  return VARIANTS.map(([chain, masquerade]) => {
    const situations: Omit<Cell, "name" | "chain" | "masquerade">[] = [
      empty,
      ...chain === "pod" && masquerade
        ? [{ ...empty, parallel: DRAINED, isDrain: true }]
        : [],
      ...widths.map((parallel) => ({ ...empty, parallel })),
      ...levels.map((containers) => ({ ...empty, containers })),
    ];
    const cells = situations.map((one) => nameCell(chain, masquerade, one))
      .filter(({ name }) => name.includes(filter));
    return { chain, masquerade, cells };
  }).filter(({ cells }) => cells.length > 0);
}

/** Names a cell for people and for `--filter`. */
function nameCell(
  chain: ChainName,
  masquerade: boolean,
  one: Omit<Cell, "name" | "chain" | "masquerade">,
): Cell {
  const { containers, parallel, isDrain } = one;
  const width = isDrain ? `drain of ${parallel}` : `${parallel} at once`;
  const name = [
    chain,
    ...masquerade ? ["masquerade"] : [],
    `${containers} containers`,
    ...parallel > 1 ? [width] : [],
  ].join(", ");
  return { name, chain, masquerade, ...one };
}

/** Explains the name of a chain: its plugins, where the name does not say them. */
export function explainChain(chain: ChainName): string {
  const plugins: readonly string[] = CHAINS[chain];
  return plugins.length === 1 ? chain : `${chain} (${plugins.join(", ")})`;
}
