import { assertEquals } from "@std/assert";
import {
  countConformance,
  findTally,
  findTestSummary,
  formatTally,
  sumTallies,
  type Tally,
} from "./tally.ts";
import { testRows } from "../tests/_harness/table.ts";

function tally(passed: number, failed: number, skipped: number): Tally {
  return { passed, failed, skipped };
}

Deno.test("sumTallies() adds each count", () => {
  assertEquals(sumTallies([]), tally(0, 0, 0));
  assertEquals(
    sumTallies([tally(1, 2, 3), tally(10, 20, 30)]),
    tally(11, 22, 33),
  );
});

testRows(
  "findTally() reads the last line that formatTally() wrote",
  [
    ["alone", formatTally(tally(12, 0, 3)), tally(12, 0, 3)],
    [
      "last of two",
      "1 passed, 0 failed, 0 skipped\n2 passed, 1 failed, 0 skipped\n",
      tally(2, 1, 0),
    ],
    [
      "followed by noise",
      "1 passed, 0 failed, 0 skipped\nbye\n",
      tally(1, 0, 0),
    ],
    ["within a line", "so 1 passed, 0 failed, 0 skipped\n", undefined],
    ["absent", "", undefined],
  ],
  ([, output, found]: [string, string, Tally | undefined]) =>
    assertEquals(findTally(output), found),
);

testRows("findTestSummary() reads what deno test prints", [
  ["ok | 3 passed | 0 failed (62ms)", tally(3, 0, 0)],
  ["ok | 1 passed (1 step) | 0 failed (5ms)", tally(2, 0, 0)],
  [
    "ok | 3 passed (4 steps) | 0 failed | 1 ignored (1 step) (62ms)",
    tally(7, 0, 2),
  ],
  [
    "FAILED | 2 passed (2 steps) | 1 failed (2 steps) | 1 ignored (53ms)",
    tally(4, 3, 1),
  ],
  ["ok | 1 passed | 0 failed | 3 filtered out (8ms)", tally(1, 0, 0)],
  [
    "\x1b[0m\x1b[32mok\x1b[0m | 1 passed | 0 failed \x1b[0m\x1b[38;5;245m(26ms)\x1b[0m",
    tally(1, 0, 0),
  ],
  [
    "ok | 9 passed | 9 failed\nmore\nok | 1 passed | 0 failed (1ms)",
    tally(1, 0, 0),
  ],
  ["error: Type checking failed.", undefined],
], ([summary, found]: [string, Tally | undefined]) => {
  assertEquals(
    findTestSummary(`plain ... ok (1ms)\n\n${summary}\n\n`),
    found,
  );
});

Deno.test("countConformance() counts the rows by their names", () => {
  const output = `running 4 tests from ./tests/conformance/skel_test.ts
conformance skel: ADD calls add ... ok (1ms)
conformance skel: a row with steps ...
  a step ... ok (0ms)
conformance skel: a row with steps ... \x1b[0m\x1b[31mFAILED\x1b[0m (2ms)
conformance ptp: needs a kernel (skipped: needs root) ... ignored (0ms)
another test ... ok (1ms)
`;
  assertEquals(countConformance(output), tally(1, 1, 1));
});
