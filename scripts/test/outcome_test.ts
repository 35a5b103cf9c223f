import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { eachRow, testRows } from "../../tests/_harness/table.ts";
import {
  findTally,
  formatTally,
  judge,
  type ProcessEnd,
  sumTallies,
  type Tally,
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
  timeMs: 1,
};
const BEGIN = "running 3 tests from ./a_test.ts\none ... ok (1ms)\n";
const PASSED =
  `${BEGIN}\nok | 2 passed (1 step) | 0 failed | 1 ignored (1ms)\n`;

/** What deno prints of tests of every kind. */
const OUTPUT = `running 6 tests from ./a_test.ts
plain ... \x1b[0m\x1b[32mok\x1b[0m (1ms)
conformance x: a row with steps ...
  first ... ok (0ms)
  second (skipped: needs root) ... ignored (0ms)
  third ...
------- output -------
conformance x: printed by a test ... FAILED (1ms)
its last words----- output end -----
    deep ... ok (0ms)
  third ... ok (2ms)
conformance x: a row with steps ... ok (2ms)
whole (skipped: needs nft) ... ignored (0ms)
conformance broken ...
  good ... ok (0ms)
------- output -------
loud
----- output end -----
  bad ... FAILED (1ms)
conformance broken ... FAILED (due to 1 failed step) (2ms)
odd ... ok (1ms) ... ok (108µs)
stopped ... cancelled (0ms)

 ERRORS 

conformance broken ... bad => ./a_test.ts:3:74
error: AssertionError: Values are not equal.

    [Diff] Actual / Expected

-   a ... ok (1ms)
+   b
    at file:///a_test.ts:3:100

named ... step => ./b_test.ts:1:2
error: Error: no
Alone: deno task test --rootless b_test.ts --filter "named"

./a_test.ts (uncaught error)
error: Error: late

 FAILURES 

conformance broken ... bad => ./a_test.ts:3:74
named ... step => ./b_test.ts:1:2
./a_test.ts (uncaught error)

FAILED | 3 passed (4 steps) | 2 failed (1 step) | 1 ignored (1 step) (95ms)

error: Test failed
`;

Deno.test("judge() counts as the summary does, and rows by their names", () => {
  const outcome = judge("a", "tests", { ...GOOD, code: 1, output: OUTPUT });
  assertEquals(outcome.tally, tally(7, 3, 2));
  assertEquals(outcome.conformance, tally(1, 1, 0));
  assertEquals(outcome.skipped, [
    "conformance x: a row with steps ... second (skipped: needs root)",
    "whole (skipped: needs nft)",
  ]);
});

Deno.test("judge() names each failure, why, and how it is run alone", () => {
  const end = { ...GOOD, code: 1, output: OUTPUT };
  const { failures, report } = judge("a", "tests", end);
  assertEquals(failures, [
    `conformance broken ... bad => ./a_test.ts:3:74
    error: AssertionError: Values are not equal.
    Alone: deno task test a_test.ts --filter "conformance broken"`,
    `named ... step => ./b_test.ts:1:2
    error: Error: no
    Alone: deno task test --rootless b_test.ts --filter "named"`,
    `./a_test.ts (uncaught error)
    error: Error: late`,
  ]);
  assertStringIncludes(report, "\nloud\n");
  assertStringIncludes(report, "-   a ... ok (1ms)\n+   b\n");
  assertEquals(report.includes("plain ... ok"), false);
});

Deno.test("judge() reports nothing of what passes, or is skipped", () => {
  const outcome = judge("a", "tests", { ...GOOD, output: PASSED });
  assertEquals(outcome.tally, tally(3, 0, 1));
  assertEquals([outcome.failures, outcome.report], [[], ""]);
  const output =
    "one ... ignored (0ms)\n\nok | 0 passed | 0 failed | 1 ignored";
  const skipped = judge("a", "tests", { ...GOOD, output });
  assertEquals(skipped.tally, tally(0, 0, 1));
});

Deno.test("judge() counts a bad end as a failure that says so", async (t) => {
  const failed = `${BEGIN}two ... FAILED (1ms)

 ERRORS 

two => ./a_test.ts:1:6
error: Error: no

 FAILURES 

two => ./a_test.ts:1:6

FAILED | 1 passed | 1 failed (1ms)
`;
  const begun = `${BEGIN}two ... FAILED (1ms)\nthree ...\n  step ...`;
  const inStep = 'in the test "three ... step"';
  const died = { code: 134, signal: "SIGABRT" } as const;
  const stopped = {
    code: 137,
    signal: "SIGKILL",
    stopped: "too late",
  } as const;
  const rows: [trouble: string, end: Partial<ProcessEnd>, failed: number][] = [
    [`died of SIGABRT ${inStep}`, { ...died, output: begun }, 2],
    [
      'died of SIGABRT in the test "one"',
      { ...died, output: "one ...\n------- output -------\n  step ...\n" },
      1,
    ],
    ['died of SIGABRT after the test "one"', { ...died, output: BEGIN }, 1],
    ["died of SIGABRT before its first test", died, 1],
    ["died of SIGABRT after its tests", { ...died, output: PASSED }, 1],
    ["died of SIGABRT after its tests", { ...died, output: failed }, 2],
    [`was ended ${inStep}: too late`, { ...stopped, output: begun }, 2],
    ["ended before its first test, with exit code 1", { code: 1 }, 1],
    ["ended before its first test, with exit code 0", { code: 0 }, 1],
    [
      "ended with exit code 1, but no test failed",
      { code: 1, output: PASSED },
      1,
    ],
    [
      "left a process behind that kept its output open",
      { leftBehind: true, output: PASSED },
      1,
    ],
  ];
  await eachRow(t, rows, ([expected, end, failed]) => {
    const { tally, failures } = judge("a", "tests", { ...GOOD, ...end });
    const [trouble] = failures.at(-1)?.split("\n") ?? [];
    assertEquals(trouble, `a ${expected}`);
    assertEquals(tally.failed, failed);
    assertEquals(failures.length, failed);
  }, ([expected, , failed]) => `${expected}, ${failed} failed`);
});

Deno.test("judge() shows the last lines of a process that died", () => {
  const output = `${BEGIN}two ...\n#\n# Fatal error in native code\n`;
  const end = { ...GOOD, output, signal: "SIGSEGV" as const };
  const { report, failures } = judge("a", "tests", end);
  assert(failures[0]?.endsWith("\n    #\n    # Fatal error in native code"));
  assertStringIncludes(report, "# Fatal error in native code");
});

Deno.test("judge() counts a command as one test", () => {
  const good = judge("types", "command", GOOD);
  assertEquals(good.tally, tally(1, 0, 0));
  const end = { ...GOOD, code: 1, output: "TS1\nTS2\n" };
  const bad = judge("types", "command", end);
  assertEquals(bad.tally, tally(0, 1, 0));
  assertEquals(bad.failures, ["types failed: exit code 1\n    TS1\n    TS2"]);
  assertEquals(bad.report, "TS1\nTS2");
});

testRows<[string, Partial<ProcessEnd>, Tally, string[]]>(
  "judge() counts what a command has counted, and the command",
  [
    [
      "passed",
      { output: "ok\n5 passed, 0 failed, 2 skipped\n" },
      tally(6, 0, 2),
      [],
    ],
    [
      "failed",
      { code: 1, output: "FAILED a\n5 passed, 2 failed, 0 skipped\n" },
      tally(5, 2, 0),
      ["kernel failed: exit code 1"],
    ],
    [
      "passed, and was ended",
      { code: 1, output: "5 passed, 0 failed, 0 skipped\n", stopped: "SIGINT" },
      tally(5, 1, 0),
      ["kernel failed: SIGINT"],
    ],
    [
      "counted nothing",
      { output: "ok\n" },
      tally(0, 1, 0),
      ["kernel failed: no count"],
    ],
  ],
  ([, end, expected, names]) => {
    const outcome = judge("kernel", "counting", { ...GOOD, ...end });
    assertEquals(outcome.tally, expected);
    assertEquals(outcome.failures.map((one) => one.split("\n")[0]), names);
  },
);

Deno.test("sumTallies() adds each count", () => {
  assertEquals(sumTallies([]), tally(0, 0, 0));
  assertEquals(
    sumTallies([tally(1, 2, 3), tally(10, 20, 30)]),
    tally(11, 22, 33),
  );
});

testRows<[string, string, Tally | undefined]>(
  "findTally() reads the last line that formatTally() wrote",
  [
    ["alone", formatTally(tally(12, 0, 3)), tally(12, 0, 3)],
    [
      "last of two",
      "1 passed, 0 failed, 0 skipped\n2 passed, 1 failed, 0 skipped\n",
      tally(2, 1, 0),
    ],
    ["before noise", "1 passed, 0 failed, 0 skipped\nbye\n", tally(1, 0, 0)],
    ["within a line", "so 1 passed, 0 failed, 0 skipped\n", undefined],
    ["absent", "", undefined],
  ],
  ([, output, found]) => assertEquals(findTally(output), found),
);
