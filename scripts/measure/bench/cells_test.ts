import { assertEquals } from "@std/assert";
import { testRows } from "../../../tests/_harness/table.ts";
import { chooseRounds, type PlanInput, planScenarios } from "./cells.ts";

const DEFAULTS = { quick: false, rounds: undefined, filter: "" };

function namesOf(input: Partial<PlanInput>): string[] {
  return planScenarios({ ...DEFAULTS, ...input })
    .flatMap(({ cells }) => cells.map(({ name }) => name));
}

testRows("planScenarios() keeps to what the filter's text is in", [
  [{ filter: "ptp, masquerade" }, [
    "ptp, masquerade, 0 containers",
    "ptp, masquerade, 0 containers, 4 at once",
    "ptp, masquerade, 0 containers, 16 at once",
    "ptp, masquerade, 0 containers, 64 at once",
    "ptp, masquerade, 50 containers",
    "ptp, masquerade, 500 containers",
  ]],
  [{ filter: "drain" }, ["pod, masquerade, 0 containers, drain of 110"]],
  [{ filter: "nothing like it" }, []],
  [{ growth: [0, 20] }, [
    "pod, masquerade, 0 containers",
    "pod, masquerade, 20 containers",
  ]],
  [{ filter: "ports", quick: true }, [
    "ports, masquerade, 0 containers",
    "ports, masquerade, 0 containers, 4 at once",
    "ports, masquerade, 50 containers",
  ]],
], ([input, cells]: [Partial<PlanInput>, string[]]) => {
  assertEquals(namesOf(input), cells);
}, ([input]) => JSON.stringify(input));

testRows("chooseRounds() chooses, unless it is told how many", [
  [{}, 20, 5],
  [{ quick: true }, 3, 2],
  [{ growth: [0] }, 8, 2],
  [{ rounds: 1 }, 1, 2],
  [{ rounds: 100 }, 100, 25],
], ([input, single, batch]: [Partial<PlanInput>, number, number]) => {
  const rounds = chooseRounds({ ...DEFAULTS, ...input });
  assertEquals([rounds.single, rounds.batch], [single, batch]);
}, ([input]) => JSON.stringify(input));
