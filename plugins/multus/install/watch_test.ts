import { assert } from "@std/assert";
import { createLog } from "../../../base/log/log.ts";
import { ConfDirectory } from "../../../tests/_harness/conf_directory.ts";
import { watch } from "./watch.ts";

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

Deno.test("watch() does it again when a directory has changed, also meanwhile", async () => {
  using directory = new ConfDirectory();
  const whenMs = await watchFor(3, [directory.path, "/nowhere"], (time) => {
    if (time < 3) directory.add(`file${time}`, "");
    return true;
  });
  assert((whenMs[2] ?? Infinity) < 9000, `${whenMs}`);
});

Deno.test("watch() tries again what has failed, later and later", async () => {
  const whenMs = await watchFor(3, [], () => false);
  const [first = 0, second = 0, third = 0] = whenMs;
  const [one, two] = [second - first, third - second];
  assert(one > 990 && one < 9000, `${one} ms`);
  assert(two > 1990 && two < 9000, `${two} ms`);
});

Deno.test("watch() ends at once", async () => {
  const startMs = performance.now();
  await watchFor(1, ["/tmp"], () => true);
  assert(performance.now() - startMs < 5000);
});
