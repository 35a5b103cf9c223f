import { assert, assertEquals, assertThrows } from "@std/assert";
import * as aarch64 from "./aarch64.ts";
import type { StubPlan } from "./stub.ts";
import * as x86_64 from "./x86_64.ts";
import { eachRow } from "./rows_sample.ts";

const plan: StubPlan = {
  entry: 0x100000,
  slots: { setenv: 0x200000, getcwd: 0x200008, chdir: 0x200010 },
  droppedPrefixes: ["DENO_", "COMPLETE="],
  variables: { HOME: "/nowhere" },
  args: ["run", "data:,1"],
};

const assemblers = { x86_64, aarch64 };

Deno.test("assembleStub() puts the texts behind the code", async (t) => {
  const texts = "\x05DENO_\x09COMPLETE=\0HOME\0/nowhere\0run\0data:,1\0/\0";
  await eachRow(t, Object.entries(assemblers), ([, { assembleStub }]) => {
    const stub = assembleStub(0x400000, plan);
    const end = new TextDecoder().decode(stub.subarray(-texts.length));
    assertEquals(end, texts);
    assertEquals(stub, assembleStub(0x400000, plan), "always the same");
  });
});

Deno.test("assembleStub() refuses an odd number of arguments", async (t) => {
  await eachRow(t, Object.entries(assemblers), ([, { assembleStub }]) => {
    assertThrows(
      () => assembleStub(0x400000, { ...plan, args: ["run"] }),
      Error,
      "Cannot insert 1 arguments: expected an even number",
    );
  });
});

Deno.test("assembleStub() refuses an entry point out of reach", async (t) => {
  await eachRow(t, Object.entries(assemblers), ([, { assembleStub }]) => {
    assertThrows(
      () => assembleStub(0x400000, { ...plan, entry: 2 ** 45 }),
      RangeError,
      'Cannot encode the distance to "entry"',
    );
  });
});

Deno.test("assembleStub() needs no change of the code for another place", () => {
  // Relative addresses only: the kernel loads the executable anywhere.
  const moved: StubPlan = {
    ...plan,
    entry: plan.entry + 0x10000,
    slots: { setenv: 0x210000, getcwd: 0x210008, chdir: 0x210010 },
  };
  for (const { assembleStub } of Object.values(assemblers)) {
    const here = assembleStub(0x400000, plan);
    const there = assembleStub(0x410000, moved);
    assert(here.every((byte, index) => byte === there[index]));
  }
});
