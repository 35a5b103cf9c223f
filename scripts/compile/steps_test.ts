import { assertEquals, assertMatch } from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";
import { ROOT } from "./project.ts";
import {
  applySteps,
  formatLeftOut,
  LINK,
  type Step,
  STEP_NAMES,
  STEPS,
} from "./steps.ts";

/** Appends a byte. */
function append(name: string, byte: number): Step {
  const change: Step["change"] = (bytes) => Uint8Array.of(...bytes, byte);
  return { name, without: `lacks ${byte}`, change };
}

const FAIL: Step = {
  name: "fail",
  without: "lacks nothing",
  change(): never {
    throw new Error("on purpose");
  },
};
/** Has an executable not start. */
const BREAK = append("break", 0);

/** Starts what has no 0 in it. */
async function findProblem(bytes: Uint8Array): Promise<string | undefined> {
  await Promise.resolve();
  return bytes.includes(0) ? "it does not start" : undefined;
}

const [one, two] = [append("one", 1), append("two", 2)];

const rows: [Step[], made: number[], leftOut: string[]][] = [
  [[], [9], []],
  [[one, two], [9, 1, 2], []],
  [[BREAK, one, two], [9, 1, 2], ["break"]],
  [[one, BREAK, two], [9, 1, 2], ["break"]],
  [[one, two, BREAK], [9, 1, 2], ["break"]],
  [[FAIL, one, BREAK, two], [9, 1, 2], ["fail", "break"]],
  [[FAIL], [9], ["fail"]],
];

testRows(
  "applySteps() leaves out what fails or spoils the executable",
  rows,
  async ([steps, made, leftOut]) => {
    const changed = await applySteps(Uint8Array.of(9), steps, {}, findProblem);
    assertEquals([...changed.bytes], made);
    assertEquals(changed.leftOut.map(({ step }) => step.name), leftOut);
  },
  ([steps]) => steps.map(({ name }) => name).join(", "),
);

Deno.test("a step that is left out is one line", () => {
  assertEquals(
    formatLeftOut("dist/bin/cni", { step: FAIL, why: "on purpose" }),
    '"dist/bin/cni" lacks nothing (--no-fail): on purpose',
  );
});

/** Where the function of each step is. */
const FILES: Readonly<Record<string, string>> = {
  "link": "link.ts",
  "linker-stub": "linker_stub.ts",
  "call-stub": "call_stub.ts",
  "prelink": "prelink.ts",
  "hide-sections": "hide_sections.ts",
};

testRows(
  "each step tells its reason, its gain and how to turn it off",
  STEP_NAMES,
  async (name) => {
    const text = await Deno.readTextFile(
      `${ROOT}scripts/compile/${FILES[name]}`,
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
