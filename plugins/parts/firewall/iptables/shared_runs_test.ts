import { AsyncLocalStorage } from "node:async_hooks";
import { assertEquals, assertRejects } from "@std/assert";
import {
  checkChange,
  enableChangeChecks,
  withChangeCheck,
} from "../../../../ffi/change_check.ts";
import { testRows } from "../../../../tests/_harness/table.ts";
import { SharedRuns, type Sharing } from "./shared_runs.ts";

/** Runs that double numbers, and what each of them was asked for. */
function doubling(
  sharing?: Sharing<number>,
): { runs: SharedRuns<number, number>; asked: number[][] } {
  const asked: number[][] = [];
  const runs = new SharedRuns<number, number>((inputs) => {
    asked.push([...inputs]);
    return Promise.try(() =>
      inputs.map((input) => {
        if (input < 0) throw new Error(`no ${input}`);
        return input * 2;
      })
    );
  }, sharing);
  return { runs, asked };
}

Deno.test("SharedRuns joins the requests that arrive during a run", async () => {
  const { runs, asked } = doubling();
  const keyed = (input: number): Promise<number> => runs.run("key", input);
  const outputs = await Promise.all([
    ...[1, 2, 3].map(keyed),
    runs.run("other", 4),
  ]);
  assertEquals(outputs, [2, 4, 6, 8]);
  assertEquals(asked, [[1], [4], [2, 3]]);
  assertEquals(await runs.run("key", 5), 10);
  assertEquals(asked.at(-1), [5]);
});

Deno.test("SharedRuns fails only the callers whose own request fails", async () => {
  const { runs, asked } = doubling();
  const outputs = [0, 1, -2, 3].map((input) => runs.run("key", input));
  await assertRejects(() => outputs[2] ?? Promise.resolve(), Error, "no -2");
  assertEquals(await Promise.all([outputs[1], outputs[3]]), [2, 6]);
  assertEquals(asked, [[0], [1, -2, 3], [1], [-2], [3]]);
  const once = doubling({ isRetried: () => false });
  const [, two, three] = [1, -2, 3].map((input) => once.runs.run("key", input));
  for (const one of [two, three]) {
    await assertRejects(() => one ?? Promise.resolve(), Error, "no -2");
  }
  assertEquals(once.asked, [[1], [-2, 3]]);
});

Deno.test("SharedRuns continues without a cancelled caller", async () => {
  const isGivenUp = (_: unknown, input: number): boolean => input < 0;
  const { runs, asked } = doubling({ isGivenUp });
  const [, three, gone, four] = [1, 3, -2, 4].map((input) =>
    runs.run("key", input)
  );
  await assertRejects(() => gone ?? Promise.resolve(), Error, "no -2");
  assertEquals(await Promise.all([three, four]), [6, 8]);
  assertEquals(asked, [[1], [3, -2, 4], [3, 4]]);
});

Deno.test("SharedRuns runs conflicting requests separately", async () => {
  const claimsOf = (input: number): string[] => [`${input % 2}`, `n${input}`];
  const { runs, asked } = doubling({ claimsOf });
  await Promise.all([0, 1, 2, 3, 4].map((input) => runs.run("key", input)));
  assertEquals(asked, [[0], [1, 2], [3, 4]]);
});

testRows("SharedRuns skips the changes of a superseded caller only", [
  ["who began the runs", 0, [[1, 2]]],
  ["who shares a run", 1, [[0], [2]]],
], async ([, superseded, changed]: [string, number, number[][]]) => {
  enableChangeChecks(new AsyncLocalStorage());
  const done: number[][] = [];
  const runs = new SharedRuns<number, void>(async (inputs) => {
    await Promise.resolve();
    checkChange();
    done.push([...inputs]);
    return inputs.map(() => {});
  });
  const run = (input: number): Promise<void> =>
    withChangeCheck(() => {
      if (input === superseded) throw new Error("superseded");
    }, () => runs.run("key", input));
  const outcomes = await Promise.allSettled([0, 1, 2].map(run));
  assertEquals(
    outcomes.map(({ status }) => status === "rejected"),
    [0, 1, 2].map((input) => input === superseded),
  );
  assertEquals(done, changed);
});
