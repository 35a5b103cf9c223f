import { assertEquals } from "@std/assert";
import { type Plan, planBench, type PlanInput } from "./plan.ts";
import { testRows } from "../../../tests/_harness/table.ts";

const DEFAULTS = { quick: false, rounds: undefined, filter: "" };

function plan(input: Partial<PlanInput>, ...missing: string[]): Plan {
  return planBench(
    { ...DEFAULTS, ...input },
    (chain) => !missing.includes(chain),
  );
}

function namesOf({ scenarios }: Plan): string[] {
  return scenarios.flatMap(({ cells }) => cells.map(({ name }) => name));
}

Deno.test("planBench() fills nodes step by step, and tries several at once on empty ones", () => {
  assertEquals(namesOf(plan({ filter: "ptp, masquerade" })), [
    "ptp, masquerade, 0 containers",
    "ptp, masquerade, 0 containers, 4 at once",
    "ptp, masquerade, 0 containers, 16 at once",
    "ptp, masquerade, 0 containers, 64 at once",
    "ptp, masquerade, 50 containers",
    "ptp, masquerade, 500 containers",
  ]);
});

Deno.test("planBench() drains a node with pods", () => {
  const { scenarios } = plan({ filter: "drain" });
  assertEquals(
    scenarios.flatMap(({ cells }) => cells)
      .map(({ name, parallel, isDrain }) => [name, parallel, isDrain]),
    [["pod, masquerade, 0 containers, drain of 110", 110, true]],
  );
});

testRows("planBench() keeps to what the filter's text is in", [
  ["start", true, []],
  ["nothing like it", false, []],
  ["host-local, 50 ", false, ["host-local, 50 containers"]],
  ["ports", false, [
    "ports, masquerade, 0 containers",
    "ports, masquerade, 0 containers, 4 at once",
    "ports, masquerade, 50 containers",
  ]],
], ([filter, start, cells]: [string, boolean, string[]]) => {
  const made = plan({ filter, quick: true });
  assertEquals(made.start, start);
  assertEquals(namesOf(made), cells);
});

Deno.test("planBench() leaves out chains that we have no executables for", () => {
  const { scenarios } = plan({}, "ports", "bridge");
  const chains = new Set(scenarios.map(({ chain }) => chain));
  assertEquals([...chains], ["host-local", "ptp", "pod"]);
});

testRows("planBench() chooses rounds, unless it is told how many", [
  [{}, 20, 5],
  [{ quick: true }, 3, 2],
  [{ rounds: 1 }, 1, 2],
  [{ rounds: 100 }, 100, 25],
], ([input, single, batch]: [Partial<PlanInput>, number, number]) => {
  const { rounds } = plan(input);
  assertEquals([rounds.single, rounds.batch], [single, batch]);
}, ([input]) => JSON.stringify(input));
