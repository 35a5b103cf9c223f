import { assert } from "@std/assert";
import {
  compareCalls,
  makeSender,
  type Sender,
} from "../../tests/fuzz/launcher_calls.ts";
import { COMPILER, findMissingTools } from "./objects.ts";
import { testMachines } from "./program_sample.ts";
import { SanitizedProgram } from "./sanitized.ts";

async function check(sender: Sender, runs: number): Promise<void> {
  const asked = await compareCalls(sender, { runs, seed: Date.now() });
  assert(asked > runs / 10, `${asked} asked`);
}

testMachines("the launcher sends what deno would send", async (_, machine) => {
  await using sender = makeSender(machine);
  await check(sender, 12_000);
});

const lacks = findMissingTools().includes(COMPILER);

Deno.test({
  name: `the launcher sends it without a fault that sanitizers see${
    lacks ? ` (skipped: needs ${COMPILER})` : ""
  }`,
  ignore: lacks,
  async fn(): Promise<void> {
    await using sender = await SanitizedProgram.compile("sender");
    await check(sender, 12_000);
  },
});
