/**
 * `deno task scale`: simulates contention on whereabouts' pools, prints the
 * tables of docs/whereabouts.md, and draws docs/scale.svg.
 *
 * @module
 */

import { answerHelp } from "../help.ts";
import { type CurvePoint, drawCurvePanels } from "./bench/charts.ts";
import { type Outcome, simulate } from "./scale/simulation.ts";

answerHelp(`Usage: deno task scale

Simulate contention on whereabouts' pools: print the tables of docs/whereabouts.md,
and draw docs/scale.svg. Takes some minutes.`);

const PICTURE = new URL("../../docs/scale.svg", import.meta.url);
const NODES = [10, 50, 100, 200, 500, 1000, 2000, 5000];
/** Nodes of the 100 000 pods; with node slices, each has a pool. */
const POD_NODES = 5000;
/** "Always the lowest" is too slow beyond this. */
const MOST_LOWEST = 1000;

/** Ways to divide the attachments among pools. */
const WAYS = [
  { who: "1 pool", pools: (): number => 1, lookups: 0 },
  { who: "10 pools", pools: (): number => 10, lookups: 0 },
  // The GET of the slices, which the simulation leaves out.
  { who: "node slices", pools: (nodes: number): number => nodes, lookups: 1 },
] as const;

const requests: CurvePoint[] = [];
const delays: CurvePoint[] = [];
const slow: CurvePoint[] = [];

/** Simulates one pod on each node. */
function measure(who: string, nodes: number, outcome: Outcome): void {
  requests.push({ who, x: nodes, y: outcome.requests });
  delays.push({ who, x: nodes, y: outcome.p99Ms / 1000 });
  printRow([nodes, who, ...figuresOf(outcome)]);
}

function withLookups(count: number, outcome: Outcome): Outcome {
  return { ...outcome, requests: outcome.requests + count };
}

function figuresOf(outcome: Outcome): (string | number)[] {
  if (outcome.duplicates > 0) throw new Error("an address was given twice");
  return [
    outcome.requests.toFixed(1),
    formatMs(outcome.medianMs),
    formatMs(outcome.p99Ms),
    formatMs(outcome.maxMs),
    outcome.late,
  ];
}

function formatMs(ms: number): string {
  return ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

function printRow(cells: readonly (string | number)[]): void {
  console.log(`| ${cells.join(" | ")} |`);
}

console.log("One pod on every node at the same moment\n");
const HEADINGS = ["requests", "median", "p99", "max", "over 60 s"];
printRow(["nodes", "pools", ...HEADINGS]);
for (const nodes of NODES) {
  for (const { who, pools, lookups } of WAYS) {
    const scenario = { adds: nodes, pools: pools(nodes), withinMs: 0 };
    measure(who, nodes, withLookups(lookups, simulate(scenario)));
  }
  if (nodes > MOST_LOWEST) continue;
  const scenario = { adds: nodes, pools: 1, withinMs: 0, keepsToLowest: true };
  const outcome = simulate(scenario);
  const who = "1 pool, lowest";
  slow.push({ who, x: nodes, y: outcome.requests });
  printRow([nodes, who, ...figuresOf(outcome)]);
}

const panels = [
  { label: "requests per ADD, by nodes", points: requests },
  { label: "ADD, s (p99), by nodes", points: delays },
  {
    label: "requests per ADD, by nodes: random or lowest",
    points: [
      ...requests.filter(({ who, x }) => who === "1 pool" && x <= MOST_LOWEST),
      ...slow,
    ],
  },
];
const subtitle = [
  "One pod on every node at the same moment; the plugin's allocator,",
  "simulated network (0.5 to 2 ms each way) and API server (2 ms per write)",
];
Deno.writeTextFileSync(
  PICTURE,
  drawCurvePanels("whereabouts: contention on pools", subtitle, panels),
);
await new Deno.Command(Deno.execPath(), {
  args: ["fmt", "--quiet", PICTURE.pathname],
}).spawn().status;

console.log("\n100 000 pods on 5 000 nodes\n");
printRow(["time", "pools", ...HEADINGS]);
for (const minutes of [10, 30]) {
  for (const pools of [16, 100, POD_NODES]) {
    const withinMs = minutes * 60_000;
    const lookups = pools === POD_NODES ? 1 : 0;
    const outcome = withLookups(
      lookups,
      simulate({ adds: 100_000, pools, withinMs }),
    );
    printRow([`${minutes} min`, pools, ...figuresOf(outcome)]);
  }
}
