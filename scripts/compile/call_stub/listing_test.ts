import { assert, assertEquals, assertMatch } from "@std/assert";
import { concat } from "../../../net/bytes.ts";
import { testRows } from "../../../tests/_harness/table.ts";
import { listLinkerStub } from "../linker_stub.ts";
import { assembleCallStub, listCallStub } from "./attach.ts";
import { formatListing, listOperations, type Operation } from "./listing.ts";
import { MACHINES } from "./processors.ts";

const PLACE = { origin: 0x1000, entry: 0x500_0000, build: "b".repeat(64) };

const stubs: Record<string, (machine: typeof MACHINES[number]) => Operation[]> =
  {
    "call stub": (machine) => listCallStub(machine, PLACE),
    "linker stub": (machine) => listLinkerStub(machine, PLACE.origin),
  };

/** What is the same for each processor. */
function readSequence(operations: readonly Operation[]): string[] {
  // It names the dynamic linker, which differs.
  return operations.map(({ text, step }) =>
    `${
      text.replace(/ld-linux-[\w.-]+/g, "LINKER").replace(/\/lib(64)?\//g, "/")
    } | ${step}`
  );
}

testRows(
  "each processor has the same operations, in the same order",
  Object.entries(stubs),
  ([, list]) => {
    const [one = [], ...others] = MACHINES.map((machine) =>
      readSequence(list(machine))
    );
    assert(one.length > 200);
    for (const other of others) assertEquals(other, one);
  },
);

Deno.test("a listing has every byte of the stub, once", () => {
  for (const machine of MACHINES) {
    const operations = listCallStub(machine, PLACE);
    let at = PLACE.origin;
    for (const { address, bytes, text } of operations) {
      assertEquals(address, at, text);
      assertEquals(bytes.length === 0, text.endsWith(":"), text);
      at += bytes.length;
    }
    const all = concat(operations.map(({ bytes }) => bytes.slice()));
    assertEquals(all, assembleCallStub(machine, PLACE));
  }
});

Deno.test("a listing names what registers hold, the stack, texts and steps", () => {
  const text = formatListing("call stub", listCallStub("x86_64", PLACE));
  for (
    const line of [
      /^001000 {2}48 81 ec 80 01 00 00 48 {2}enter, 384 bytes of stack$/m,
      / {2}argc = stack\+0 +read argc$/m,
      / {2}if argc != 1 go to <start deno> +read argc$/m,
      / {2}names = &"CNI_COMMAND=\\u0000CNI_CONT.*…" +read the environment$/m,
      / {2}result = connect\(socket, &frame\.address, length\) +connect$/m,
      / {2}leave, go to <entry of deno> +start deno$/m,
    ]
  ) assertMatch(text, line);
});

Deno.test("a step ends with its block", () => {
  const operations = listOperations("x86_64", 0, (w) => {
    using outer = w.step("outer", { one: "a", two: "b" });
    {
      using inner = w.step("inner", { other: "b" });
      w.p.add(outer.one, inner.other);
    }
    w.p.add(outer.one, outer.two);
  }, {});
  assertEquals(operations.map(({ text, step }) => [text, step]), [
    ["one += other", "outer: inner"],
    ["one += two", "outer"],
    ["texts", ""],
  ]);
});
