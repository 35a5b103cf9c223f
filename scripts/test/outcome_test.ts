import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  judgeCommand,
  judgeCounting,
  judgeShard,
  judgeUnrun,
} from "./outcome.ts";
import type { ShardEnd } from "./run_shard.ts";
import type { Tally } from "../tally.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

const GOOD: ShardEnd = {
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
const FAILED = `${BEGIN}two ... FAILED (1ms)

 ERRORS 

two => ./a_test.ts:1:6
error: Error: no

 FAILURES 

two => ./a_test.ts:1:6

FAILED | 1 passed | 1 failed (1ms)
`;

Deno.test("judgeShard() counts as the summary does", () => {
  const { tally, failures, trouble } = judgeShard("a", {
    ...GOOD,
    output: PASSED,
  });
  assertEquals(tally, { passed: 3, failed: 0, skipped: 1 });
  assertEquals(failures, []);
  assertEquals(trouble, undefined);
});

Deno.test("judgeShard() accepts a file in which all is skipped", () => {
  const output =
    "one ... ignored (0ms)\n\nok | 0 passed | 0 failed | 1 ignored";
  const { tally } = judgeShard("a", { ...GOOD, output });
  assertEquals(tally, { passed: 0, failed: 0, skipped: 1 });
});

Deno.test("judgeShard() reports a test that failed once", () => {
  const end = { ...GOOD, output: FAILED, code: 1 };
  const { tally, failures, report } = judgeShard("a", end);
  assertEquals(tally, { passed: 1, failed: 1, skipped: 0 });
  assertEquals(failures, [
    { name: "two => ./a_test.ts:1:6", lines: ["error: Error: no"] },
  ]);
  assertStringIncludes(report, "two ... FAILED (1ms)\n\n ERRORS \n");
});

Deno.test("judgeShard() names what the machine ran out of", async (t) => {
  const rows: [text: string, limit: string | undefined][] = [
    ["Error: no", undefined],
    ["Error: unable to create worker threads", "threads or processes"],
    ["sh: 1: Cannot fork", "threads or processes"],
    ["Cannot allocate memory (os error 12)", "memory"],
    ["write: No space left on device (os error 28)", "disk"],
    ["Too many open files (os error 24)", "file descriptors"],
    ["Unknown error (os error 111)", undefined],
  ];
  await eachRow(t, rows, ([text, limit]) => {
    const output = FAILED.replace("Error: no", text);
    const end = { ...GOOD, output, code: 1 };
    assertEquals(judgeShard("a", end).limit, limit);
    const died = { ...GOOD, output: `${BEGIN}${text}\n`, code: 1 };
    assertEquals(judgeShard("a", died).limit, limit);
  });
  await t.step("but not what a test that passed has printed", () => {
    const output = PASSED.replace("one", "No space left on device ...\none");
    assertEquals(judgeShard("a", { ...GOOD, output }).limit, undefined);
  });
});

Deno.test("judgeShard() counts a bad end as a failure that says so", async (t) => {
  const begun = `${BEGIN}two ... FAILED (1ms)\nthree ...\n  step ...`;
  const inStep = 'in the test "three ... step"';
  const died = { code: 134, signal: "SIGABRT" } as const;
  const stopped = {
    code: 137,
    signal: "SIGKILL",
    stopped: "too late",
  } as const;
  const rows: [trouble: string, end: Partial<ShardEnd>, failed: number][] = [
    [`died of SIGABRT ${inStep}`, { ...died, output: begun }, 2],
    ['died of SIGABRT after the test "one"', { ...died, output: BEGIN }, 1],
    ["died of SIGABRT before its first test", died, 1],
    ["died of SIGABRT after its tests", { ...died, output: PASSED }, 1],
    ["died of SIGABRT after its tests", { ...died, output: FAILED }, 2],
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
    const { tally, failures, trouble } = judgeShard("a", { ...GOOD, ...end });
    assertEquals(trouble?.name, `a ${expected}`);
    assertEquals(tally.failed, failed);
    assertEquals(failures.length, failed);
  }, ([expected, , failed]) => `${expected}, ${failed} failed`);
});

Deno.test("judgeShard() shows the last lines of a process that died", () => {
  const output = `${BEGIN}two ...\n#\n# Fatal error in native code\n`;
  const { report, trouble } = judgeShard("a", {
    ...GOOD,
    output,
    signal: "SIGSEGV",
  });
  assertEquals(trouble?.lines.slice(-2), ["#", "# Fatal error in native code"]);
  assertStringIncludes(report, "# Fatal error in native code");
});

Deno.test("judgeShard() counts the conformance rows", () => {
  const rows = "conformance x: a ... ok (1ms)\nconformance x: b ... ok (1ms)\n";
  const output = `${rows}\nok | 2 passed | 0 failed (1ms)\n`;
  assertEquals(judgeShard("a", { ...GOOD, output }).conformance.passed, 2);
});

Deno.test("judgeCommand() counts a command as one test", () => {
  const good = judgeCommand("types", GOOD);
  assertEquals(good.tally, { passed: 1, failed: 0, skipped: 0 });
  const bad = judgeCommand("types", { ...GOOD, code: 1, output: "TS1\nTS2\n" });
  assertEquals(bad.tally, { passed: 0, failed: 1, skipped: 0 });
  assertEquals(bad.failures, [
    { name: "types failed: exit code 1", lines: ["TS1", "TS2"] },
  ]);
  assertEquals(bad.report, "TS1\nTS2");
});

testRows<[string, Partial<ShardEnd>, Tally, string[]]>(
  "judgeCounting() counts what a command has counted, and the command",
  [
    [
      "passed",
      { output: "ok\n5 passed, 0 failed, 2 skipped\n" },
      { passed: 6, failed: 0, skipped: 2 },
      [],
    ],
    [
      "failed",
      { code: 1, output: "FAILED a\n5 passed, 2 failed, 0 skipped\n" },
      { passed: 5, failed: 2, skipped: 0 },
      ["kernel failed: exit code 1"],
    ],
    [
      "passed, and was ended",
      { code: 1, output: "5 passed, 0 failed, 0 skipped\n", stopped: "SIGINT" },
      { passed: 5, failed: 1, skipped: 0 },
      ["kernel failed: SIGINT"],
    ],
    [
      "counted nothing",
      { output: "ok\n" },
      { passed: 0, failed: 1, skipped: 0 },
      ["kernel counted nothing"],
    ],
  ],
  ([, end, tally, names]) => {
    const outcome = judgeCounting("kernel", { ...GOOD, ...end });
    assertEquals(outcome.tally, tally);
    assertEquals(outcome.failures.map(({ name }) => name), names);
  },
);

Deno.test("judgeUnrun() is one failure, however much is not run", () => {
  const few = judgeUnrun(["a", "b"], "SIGINT has come");
  assertEquals(few.tally, { passed: 0, failed: 1, skipped: 0 });
  assertEquals(few.failures, [
    { name: "Not run (2): SIGINT has come", lines: ["a", "b"] },
  ]);
  const names = Array.from({ length: 400 }, (_, index) => `${index}`);
  const many = judgeUnrun(names, "SIGINT has come");
  assertEquals(many.tally, few.tally);
  assertEquals(many.failures[0]?.lines.slice(-2), ["11", "and 388 more"]);
});
