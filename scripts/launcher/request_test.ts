import { assert } from "@std/assert";
import {
  compareCalls,
  makeSender,
  type Sender,
} from "../../tests/fuzz/launcher_calls.ts";
import { firstSeed, howManyInputs } from "../../tests/_harness/repetition.ts";
import { COMPILER, findMissingTools } from "./objects.ts";
import { testMachines } from "./testing.ts";
import { fuzzLauncher, SanitizedProgram } from "./sanitized.ts";

/** Enough for each kind of call; nightly, there are more. */
const CALLS = howManyInputs(2_000);

async function check(sender: Sender): Promise<void> {
  const seed = firstSeed(Date.now());
  const asked = await compareCalls(sender, { runs: CALLS, seed });
  assert(asked > CALLS / 10, `${asked} asked`);
}

testMachines("the launcher sends what deno would send", async (_, machine) => {
  await using sender = makeSender(machine);
  await check(sender);
});

const lacks = findMissingTools().includes(COMPILER);
const why = lacks ? ` (skipped: needs ${COMPILER})` : "";

Deno.test({
  name: `the launcher sends it without a fault that sanitizers see${why}`,
  ignore: lacks,
  async fn(): Promise<void> {
    await using sender = await SanitizedProgram.compile("sender");
    await check(sender);
  },
});

Deno.test({
  name: `the launcher gives stdin back whatever the kernel answers${why}`,
  ignore: lacks,
  fn: () =>
    fuzzLauncher({ runs: howManyInputs(10_000), seed: firstSeed(Date.now()) }),
});
