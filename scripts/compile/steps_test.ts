import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";
import { ROOT } from "../project.ts";
import { applySteps, LINK, type Step, STEP_NAMES, STEPS } from "./steps.ts";

/** Appends a byte. */
function append(name: string, byte: number): Step {
  const change: Step["change"] = (bytes) => Uint8Array.of(...bytes, byte);
  return { name, without: `lacks ${byte}`, change };
}

Deno.test("applySteps() applies them in order, and names one that fails", () => {
  const fail: Step = {
    name: "fail",
    without: "lacks nothing",
    change(): never {
      throw new Error("on purpose");
    },
  };
  const steps = [append("one", 1), append("two", 2)];
  const bytes = Uint8Array.of(9);
  assertEquals([...applySteps(bytes, steps, {})], [9, 1, 2]);
  assertThrows(
    () => applySteps(bytes, [...steps, fail], {}),
    Error,
    "Cannot compile without --no-fail",
  );
});

/** Where the function of each step is. */
const FILES: Readonly<Record<string, string>> = {
  "link": "compile/link.ts",
  "linker-stub": "stubs/linker_stub.ts",
  "call-stub": "stubs/call_stub.ts",
  "prelink": "prelink/prelink.ts",
  "hide-sections": "compile/hide_sections.ts",
};

testRows(
  "each step tells its reason, its gain and how to turn it off",
  STEP_NAMES,
  async (name) => {
    const text = await Deno.readTextFile(
      `${ROOT}scripts/${FILES[name]}`,
    );
    const [, head = ""] = /^\/\*\*(.*?)\*\//s.exec(text) ?? [];
    for (const word of ["Reason", "Gain"]) {
      assertMatch(head, RegExp(`${word}: `));
    }
    assertMatch(head, RegExp(`Off: \`--no-${name}\``));
  },
  (name) => name,
);

Deno.test("ARCHITECTURE.md has a row for each step, in order", async () => {
  const text = await Deno.readTextFile(`${ROOT}ARCHITECTURE.md`);
  const found = [...text.matchAll(/^\| `([a-z-]+)` +\| `--no-\1` +\|/gm)]
    .map(([, name]) => name);
  assertEquals(found, [LINK, ...STEPS].map(({ name }) => name));
});
