import { assert } from "@std/assert";
import { compareCalls } from "../../../tests/fuzz/stub_calls.ts";
import { testMachines } from "./program_sample.ts";

testMachines("the stub sends what deno would send", async (_, machine) => {
  const runs = 12_000;
  const asked = await compareCalls(machine, { runs, seed: Date.now() });
  assert(asked > runs / 10, `${asked} asked`);
});
