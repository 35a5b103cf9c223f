import { assert, assertEquals } from "@std/assert";
import { simulate } from "./simulation.ts";

Deno.test("simulate() needs three requests without contention", () => {
  const { requests, duplicates, late } = simulate({
    adds: 100,
    pools: 1,
    withinMs: 100_000,
  });
  assert(requests >= 3 && requests < 3.1, `${requests}`);
  assertEquals([duplicates, late], [0, 0]);
});

Deno.test("simulate() shows why retries choose at random", () => {
  const burst = { adds: 200, pools: 1, withinMs: 0 };
  const spread = simulate(burst);
  const lowest = simulate({ ...burst, keepsToLowest: true });
  assert(spread.requests < 12, `${spread.requests}`);
  const ratio = lowest.requests / spread.requests;
  assert(ratio > 2, `${ratio}`);
  assertEquals([spread.duplicates, lowest.duplicates], [0, 0]);
});

Deno.test("simulate() repeats itself with a seed", () => {
  const scenario = { adds: 50, pools: 2, withinMs: 10, seed: 7 };
  assertEquals(simulate(scenario), simulate(scenario));
});
