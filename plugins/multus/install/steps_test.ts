import { assert, assertEquals, assertRejects } from "@std/assert";
import { createLog } from "../../../base/log/log.ts";
import { InstallSteps, NotYetError, watch } from "./steps.ts";
import { ConfDirectory } from "../../../tests/_harness/conf_directory.ts";

/** Builds a step with the given outcomes, one per run; the last one repeats. */
function stepOf(name: string, ...outcomes: (Error | undefined)[]): {
  name: string;
  ensure: () => void;
  count: number;
} {
  return {
    name,
    count: 0,
    ensure(): void {
      const outcome = outcomes[Math.min(this.count++, outcomes.length - 1)];
      if (outcome !== undefined) throw outcome;
    },
  };
}

function stepsOf(
  steps: readonly ReturnType<typeof stepOf>[],
): { steps: InstallSteps; lines: string[] } {
  const lines: string[] = [];
  const log = createLog({}, (line) => lines.push(line.trimEnd()));
  return { steps: new InstallSteps(steps, log), lines };
}

const bad = new Error("bad"), notYet = new NotYetError("not yet");
const never = new AbortController().signal;

Deno.test("InstallSteps.run() continues after a failed step only if the step succeeded before", async () => {
  const [first, second] = [
    stepOf("first", bad, undefined, bad),
    stepOf("second", undefined),
  ];
  const { steps } = stepsOf([first, second]);
  assertEquals(await steps.run(), false);
  assertEquals(second.count, 0);
  assertEquals(await steps.run(), true);
  assertEquals(second.count, 1);
  assertEquals(await steps.run(), false);
  assertEquals(second.count, 2);
});

Deno.test("InstallSteps.run() logs changes only", async () => {
  const step = stepOf("one", bad, bad, notYet, notYet, undefined, undefined);
  const { steps, lines } = stepsOf([step]);
  for (let times = 0; times < 6; times++) await steps.run();
  assertEquals(lines, [
    'level=error msg="failed, will retry" step=one reason=bad',
    'level=info msg=waiting step=one reason="not yet"',
    "level=info msg=recovered step=one",
  ]);
});

Deno.test("InstallSteps.runOnce() waits for missing files", async () => {
  const step = stepOf("one", notYet, undefined);
  await stepsOf([step]).steps.runOnce(10_000, never);
  assertEquals(step.count, 2);
});

Deno.test("InstallSteps.runOnce() stops waiting", async (t) => {
  await t.step("at a step that fails", async () => {
    const [first, second] = [stepOf("first", bad), stepOf("second")];
    const { steps } = stepsOf([first, second]);
    await assertRejects(() => steps.runOnce(10_000, never), Error, "bad");
    assertEquals([first.count, second.count], [1, 0]);
  });
  await t.step("at its time limit", async () => {
    const { steps } = stepsOf([stepOf("one", notYet)]);
    await assertRejects(() => steps.runOnce(0, never), NotYetError);
  });
  await t.step("at its signal", async () => {
    const { steps } = stepsOf([stepOf("one", notYet)]);
    const signal = AbortSignal.abort(new Error("told to"));
    await assertRejects(() => steps.runOnce(10_000, signal), Error, "told to");
  });
});

const log = createLog({}, () => {});

/** Watches until the action ran this often; returns the times, in ms. */
async function watchFor(
  times: number,
  directories: readonly string[],
  act: (time: number) => boolean,
): Promise<number[]> {
  const controller = new AbortController();
  const startMs = performance.now();
  const whenMs: number[] = [];
  await watch(directories, () => {
    whenMs.push(performance.now() - startMs);
    if (whenMs.length === times) controller.abort();
    return Promise.resolve(act(whenMs.length));
  }, { log, signal: controller.signal });
  return whenMs;
}

Deno.test("watch() runs again after each change of a directory, even during a run", async () => {
  using directory = new ConfDirectory();
  const whenMs = await watchFor(3, [directory.path, "/nowhere"], (time) => {
    if (time < 3) directory.add(`file${time}`, "");
    return true;
  });
  assert((whenMs[2] ?? Infinity) < 9000, `${whenMs}`);
});

Deno.test("watch() retries after failures with growing delays", async () => {
  const whenMs = await watchFor(3, [], () => false);
  const [first = 0, second = 0, third = 0] = whenMs;
  const [one, two] = [second - first, third - second];
  assert(one > 990 && one < 9000, `${one} ms`);
  assert(two > 1990 && two < 9000, `${two} ms`);
});

Deno.test("watch() stops immediately at its signal", async () => {
  const startMs = performance.now();
  await watchFor(1, ["/tmp"], () => true);
  assert(performance.now() - startMs < 5000);
});
