import { assert } from "@std/assert";
import {
  compareCalls,
  makeSender,
  type Sender,
} from "../../tests/fuzz/launcher_calls.ts";
import { COMPILER, findMissingTools } from "./objects.ts";
import { testMachines } from "./testing.ts";
import { fuzzLauncher, SanitizedProgram } from "./sanitized.ts";

async function check(sender: Sender, runs: number): Promise<void> {
  const asked = await compareCalls(sender, { runs, seed: Date.now() });
  assert(asked > runs / 10, `${asked} asked`);
}

testMachines("the launcher sends what deno would send", async (_, machine) => {
  await using sender = makeSender(machine);
  await check(sender, 12_000);
});

const lacks = findMissingTools().includes(COMPILER);
const why = lacks ? ` (skipped: needs ${COMPILER})` : "";

Deno.test({
  name: `the launcher sends it without a fault that sanitizers see${why}`,
  ignore: lacks,
  async fn(): Promise<void> {
    await using sender = await SanitizedProgram.compile("sender");
    await check(sender, 12_000);
  },
});

Deno.test({
  name: `the launcher gives stdin back whatever the kernel answers${why}`,
  ignore: lacks,
  fn: () => fuzzLauncher({ runs: 50_000, seed: Date.now() }),
});
