import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";
import {
  findTally,
  formatTally,
  type ProcessEnd,
  readOutcome,
  sumTallies,
  type Tally,
  withoutReport,
} from "./outcome.ts";

function tally(passed: number, failed: number, skipped: number): Tally {
  return { passed, failed, skipped };
}

const GOOD: ProcessEnd = {
  output: "",
  code: 0,
  signal: null,
  stopped: undefined,
  leftBehind: false,
  seconds: 1,
  cpuSeconds: 1,
};

/** Runs tests, and returns how their process ended. */
async function runTests(
  source: string,
  ...args: string[]
): Promise<ProcessEnd> {
  const path = await Deno.makeTempFile({ suffix: "_test.ts" });
  await Deno.writeTextFile(path, source);
  const { stdout, code } = await new Deno.Command(Deno.execPath(), {
    args: [
      "test",
      "--no-config",
      "--no-check",
      "--junit-path=-",
      ...args,
      path,
    ],
    env: { NO_COLOR: "1" },
  }).output();
  await Deno.remove(path);
  return { ...GOOD, code, output: new TextDecoder().decode(stdout) };
}

const TESTS = `
  Deno.test("conformance ptp: one & <two>", () => {});
  Deno.test({ name: "three (skipped: needs root)", ignore: true, fn() {} });
  Deno.test("four", async (t) => {
    await t.step("good", () => console.log("printed"));
    await t.step("bad", () => { throw new Error("first <line>\\nAlone: so"); });
  });
  Deno.test("five", () => { throw new Error("other") });
`;

Deno.test("readOutcome() counts as deno does, and explains each failure", async () => {
  const end = await runTests(TESTS);
  const outcome = readOutcome("a", "tests", end);
  assertEquals(outcome.tally, tally(2, 3, 1));
  assertEquals(outcome.skipped, ["three (skipped: needs root)"]);
  // Steps follow all tests.
  const [five = "", step, ...others] = outcome.failures;
  assertEquals(step, "four > bad\n    Error: first <line>\n    Alone: so");
  assert(
    /^five\n {4}Error: other\n {4}Alone: deno task test \S+_test\.ts --filter "five"$/
      .test(five),
  );
  assertEquals(others, []);
  const printed = withoutReport(end.output);
  assertStringIncludes(printed, "printed");
  assert(!printed.includes("<testsuite"));
});

Deno.test("readOutcome() names the file of a test whose step another file runs", async () => {
  const table = new URL("../../tests/_harness/table.ts", import.meta.url);
  const end = await runTests(`
    import { testRows } from ${JSON.stringify(table)};
    testRows("rows", ["bad"], () => { throw new Error("other"); });
  `);
  const [failure = ""] = readOutcome("a", "tests", end).failures;
  assertMatch(failure, /^rows > bad\n/);
  assertMatch(failure, /Alone: deno task test \S+_test\.ts --filter "rows"$/);
});

Deno.test("readOutcome() does not count what a filter left out", async () => {
  const { tally: counts } = readOutcome(
    "a",
    "tests",
    await runTests(TESTS, "--filter=one"),
  );
  assertEquals(counts, tally(1, 0, 0));
});

testRows<[string, Partial<ProcessEnd>, string]>(
  "readOutcome() counts a bad end of tests as a failure that says so",
  [
    ["a module that fails", { code: 1 }, "a ended with exit code 1\n    last"],
    ["no report", {}, "a ended without a count\n    last"],
    ["a signal", { signal: "SIGABRT" }, "a died of SIGABRT\n    last"],
    [
      "the end of time",
      { stopped: "too long" },
      "a was ended: too long\n    last",
    ],
    [
      "a child",
      { leftBehind: true },
      "a left a process behind that kept its output open\n    last",
    ],
  ],
  ([, end, failure]) => {
    const outcome = readOutcome("a", "tests", {
      ...GOOD,
      output: "\nlast\n",
      ...end,
    });
    assertEquals(outcome.failures, [failure]);
    assertEquals(outcome.tally, tally(0, 1, 0));
  },
);

testRows<[string, Partial<ProcessEnd>, Tally, string[]]>(
  "readOutcome() counts a command, and what it has counted",
  [
    ["good", { output: "2 passed, 0 failed, 1 skipped\n" }, tally(3, 0, 1), []],
    ["no count", { output: "x" }, tally(0, 1, 0), [
      "a ended without a count\n    x",
    ]],
    [
      "failures",
      { output: "1 passed, 2 failed, 0 skipped\n", code: 1 },
      tally(2, 2, 0),
      ["a has failures\n    1 passed, 2 failed, 0 skipped"],
    ],
    [
      "errors",
      {
        output:
          "test ... FAILED\n\n ERRORS \n\ntest => a_test.ts\nerror: why\n" +
          "at x\n".repeat(20) + "1 passed, 2 failed, 0 skipped\n",
      },
      tally(2, 2, 0),
      [
        "a has failures\n    test => a_test.ts\n    error: why" +
        "\n    at x".repeat(10),
      ],
    ],
  ],
  ([, end, counts, failures]) => {
    const outcome = readOutcome("a", "counting", { ...GOOD, ...end });
    assertEquals([outcome.tally, outcome.failures], [counts, failures]);
    const command = readOutcome("a", "command", {
      ...GOOD,
      code: end.code ?? 0,
    });
    assertEquals(command.tally, end.code ? tally(0, 1, 0) : tally(1, 0, 0));
  },
);

Deno.test("tallies are added, written and read", () => {
  assertEquals(sumTallies([]), tally(0, 0, 0));
  const sum = sumTallies([tally(1, 2, 3), tally(10, 20, 30)]);
  assertEquals(formatTally(sum), "11 passed, 22 failed, 33 skipped");
  const text = `1 passed, 0 failed, 0 skipped\n${
    formatTally(sum)
  }\nnot 1 passed`;
  assertEquals(findTally(text), sum);
  assertEquals(findTally("x 1 passed, 0 failed, 0 skipped"), undefined);
});
