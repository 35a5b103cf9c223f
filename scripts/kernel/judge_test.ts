import { assertEquals, assertStringIncludes } from "@std/assert";
import type { Tally } from "../tally.ts";
import type { BootEnd } from "./boot.ts";
import { judgeBoot } from "./judge.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const STARTED = "VFS: Mounted root\nRun /init.sh as init process\n";
const COUNTED = "ok     some_test.ts 3 passed\n3 passed, 1 failed, 2 skipped\n";

Deno.test("judgeBoot() skips only where the kernel does not start", async (t) => {
  const rows: [
    name: string,
    end: Partial<BootEnd>,
    counts: [passed: number, failed: number, skipped: number],
    message: string,
  ][] = [
    [
      "tests that were counted",
      { output: COUNTED, log: STARTED },
      [3, 1, 2],
      "",
    ],
    [
      "a filter that leaves nothing",
      { output: "0 passed, 0 failed, 2 skipped\n", log: STARTED },
      [0, 1, 2],
      "No test was run",
    ],
    [
      "a kernel that does not start",
      { log: "Checking ptrace\nptrace: Operation not permitted\n" },
      [0, 0, 1],
      "does not boot here:\nChecking ptrace\nptrace: Operation not permitted",
    ],
    [
      "a processor that the kernel does not know",
      {
        log:
          `${STARTED}userspace - ptrace set fp regs failed, errno = 14\nKernel panic`,
      },
      [0, 0, 1],
      "fp regs failed, errno = 14\nKernel panic",
    ],
    [
      "a kernel that dies at once",
      { log: `${STARTED}Kernel panic` },
      [0, 1, 0],
      "it ended before the tests did. It logged last:\nVFS: Mounted root",
    ],
    [
      "a first process that fails",
      { output: "modprobe: not found" },
      [0, 1, 0],
      "it ended before the tests did",
    ],
    [
      "a kernel that was ended",
      { stopped: "the limit is over" },
      [0, 1, 0],
      "the kernel: the limit is over",
    ],
    [
      "a kernel that did not end after the tests",
      { output: COUNTED, log: STARTED, stopped: "the limit is over" },
      [3, 2, 2],
      "the kernel: the limit is over",
    ],
  ];
  await eachRow(t, rows, ([, end, [passed, failed, skipped], text]) => {
    const whole = { output: "", log: "", stopped: undefined, ...end };
    const { tally, message } = judgeBoot(whole);
    const want: Tally = { passed, failed, skipped };
    assertEquals(tally, want);
    assertStringIncludes(message, text);
    assertEquals(message === "", text === "");
  });
});
