import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  findFailures,
  findReport,
  readOutput,
  tallyResults,
} from "./read_output.ts";
import { testRows } from "../../tests/_harness/table.ts";

const OUTPUT = `running 6 tests from ./a_test.ts
plain ... \x1b[0m\x1b[32mok\x1b[0m (1ms)
outer ...
  first ... ok (0ms)
  second (skipped: needs root) ... ignored (0ms)
  third ...
------- output -------
conformance x: printed by a test ... FAILED (1ms)
its last words----- output end -----
    deep ... ok (0ms)
  third ... ok (2ms)
outer ... ok (2ms)
whole (skipped: needs nft) ... ignored (0ms)
broken ...
  good ... ok (0ms)
  bad ... FAILED (1ms)
broken ... FAILED (due to 1 failed step) (2ms)
odd ... ok (1ms) ... ok (108µs)
stopped ... cancelled (0ms)

 ERRORS 

broken ... bad => ./a_test.ts:3:74
error: AssertionError: Values are not equal.

    [Diff] Actual / Expected

-   a ... ok (1ms)
+   b
    at file:///a_test.ts:3:100
    at file:///a_test.ts:3:74

./a_test.ts (uncaught error)
error: Error: late

 FAILURES 

broken ... bad => ./a_test.ts:3:74
./a_test.ts (uncaught error)

FAILED | 3 passed (4 steps) | 2 failed (1 step) | 1 ignored (1 step) (95ms)

error: Test failed

Stack backtrace:
   0: <unknown>
`;

Deno.test("readOutput() names what ended, and how", () => {
  const { results, running } = readOutput(OUTPUT);
  assertEquals(results.map(({ name, outcome }) => `${outcome}: ${name}`), [
    "ok: plain",
    "ok: outer ... first",
    "ignored: outer ... second (skipped: needs root)",
    "ok: outer ... third ... deep",
    "ok: outer ... third",
    "ok: outer",
    "ignored: whole (skipped: needs nft)",
    "ok: broken ... good",
    "FAILED: broken ... bad",
    "FAILED: broken",
    "ok: odd ... ok (1ms)",
    "cancelled: stopped",
  ]);
  assertEquals(running, undefined);
  assertEquals(tallyResults(results), { passed: 7, failed: 3, skipped: 2 });
});

testRows("readOutput() says in which test the output ends", [
  ["", undefined],
  ["running 2 tests from ./a_test.ts\n", undefined],
  ["one ... ok (1ms)\n", undefined],
  ["one ... ok (1ms)\ntwo ...", "two"],
  ["one ...\n  step ...\n    deep ...", "one ... step ... deep"],
  ["one ...\n  step ...\n    deep ... ok (0ms)\n", "one ... step"],
  ["one ...\n------- output -------\n  step ...\n", "one"],
  [
    "one ...\n------- output -------\na ... ok (1ms)\n----- output end -----\n",
    "one",
  ],
], ([output, running]: [string, string | undefined]) => {
  assertEquals(readOutput(output).running, running);
}, ([output]) => JSON.stringify(output));

Deno.test("readOutput() keeps what was printed of tests that failed", () => {
  const { failedTests } = readOutput(
    "good ...\n------- output -------\nquiet\n----- output end -----\n" +
      "good ... ok (1ms)\n" +
      "bad ...\n  step ... ok (0ms)\n" +
      "------- output -------\nloud\n----- output end -----\n" +
      "bad ... FAILED (1ms)\n",
  );
  assertEquals(
    failedTests,
    "bad ...\n------- output -------\nloud\n----- output end -----\n" +
      "bad ... FAILED (1ms)",
  );
});

Deno.test("findReport() returns the errors with the summary, and no more", () => {
  const report = findReport(readOutput(OUTPUT).own);
  assertEquals(report.slice(0, 9), " ERRORS \n");
  assertStringIncludes(report, "-   a ... ok (1ms)\n+   b\n");
  assertEquals(report.slice(-7), " (95ms)");
  assertEquals(findReport("one ... ok (1ms)\n\nok | 1 passed"), "");
});

Deno.test("findFailures() names each failure with the first lines of why", () => {
  assertEquals(findFailures(findReport(readOutput(OUTPUT).own)), [
    {
      name: "broken ... bad => ./a_test.ts:3:74",
      lines: [
        "error: AssertionError: Values are not equal.",
        "    [Diff] Actual / Expected",
        "-   a ... ok (1ms)",
        "+   b",
      ],
    },
    { name: "./a_test.ts (uncaught error)", lines: ["error: Error: late"] },
  ]);
  assertEquals(findFailures(""), []);
});

Deno.test("findFailures() shows the first change of a long diff", () => {
  const equal = Array.from({ length: 20 }, (_, at) => `    ${at},`);
  const report = [
    " ERRORS ",
    "",
    "a => ./a_test.ts:1:1",
    "error: AssertionError: Values are not equal.",
    "    [Diff] Actual / Expected",
    ...equal,
    "-   20,",
    "-   20,",
    ...equal,
    "Alone: deno task test a_test.ts",
    "",
    " FAILURES ",
    "",
    "a => ./a_test.ts:1:1",
  ];
  const [failure] = findFailures(report.join("\n"));
  assertEquals(failure?.lines.slice(0, 5), [
    "error: AssertionError: Values are not equal.",
    "    [Diff] Actual / Expected",
    "    19,",
    "-   20,",
    "-   20,",
  ]);
  assertEquals(failure?.lines.at(-1), "Alone: deno task test a_test.ts");
});
