import { assertEquals, assertThrows } from "@std/assert";
import { ROOT } from "../project.ts";
import { applySteps, LINK, type Step, STEPS } from "./steps.ts";

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
  assertEquals([...applySteps(bytes, steps)], [9, 1, 2]);
  assertThrows(
    () => applySteps(bytes, [...steps, fail]),
    Error,
    "Cannot compile without --no-fail",
  );
});

Deno.test("ARCHITECTURE.md has a row for each step, in order", async () => {
  const text = await Deno.readTextFile(`${ROOT}ARCHITECTURE.md`);
  const found = [...text.matchAll(/^\| `([a-z-]+)` +\| `--no-\1` +\|/gm)]
    .map(([, name]) => name);
  assertEquals(found, [LINK, ...STEPS].map(({ name }) => name));
});
