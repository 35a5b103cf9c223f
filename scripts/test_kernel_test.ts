import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { eachRow, testRows } from "../tests/_harness/table.ts";
import type { BootEnd } from "./kernel/boot.ts";
import {
  type KernelOptions,
  listProcessors,
  parseKernelOptions,
  readBoot,
} from "./test_kernel.ts";
import type { Tally } from "./test/outcome.ts";

testRows("parseKernelOptions() reads options and files", [
  [[], {}],
  [["--core"], { core: true }],
  [["--filter", "GC"], { filter: "GC" }],
  [["--filter=BR-5", "./plugins/chain/effects_test.ts", "a_test.ts"], {
    filter: "BR-5",
    files: ["plugins/chain/effects_test.ts", "a_test.ts"],
  }],
], ([args, options]: [string[], Partial<KernelOptions>]) => {
  const nothing = { core: false, files: [], filter: undefined };
  assertEquals(parseKernelOptions(args), { ...nothing, ...options });
}, ([args]) => args.join(" ") || "nothing");

testRows<[string[], string]>("parseKernelOptions() refuses what it cannot do", [
  [["--jobs=2"], 'Cannot use "--jobs=2"'],
  [["--filter"], "Cannot use --filter without a text"],
  [["--core", "a_test.ts"], "Cannot use --core with files or --filter"],
], ([args, message]) => {
  assertThrows(() => parseKernelOptions(args), Error, message);
}, ([args]) => args.join(" "));

const STARTED = "VFS: Mounted root\nRun /init.sh as init process\n";
const COUNTED = "ok     some_test.ts 3 passed\n3 passed, 1 failed, 2 skipped\n";

Deno.test("readBoot() skips only where the kernel does not start", async (t) => {
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
    const { tally, message } = readBoot(whole);
    const want: Tally = { passed, failed, skipped };
    assertEquals(tally, want);
    assertStringIncludes(message, text);
    assertEquals(message === "", text === "");
  });
});

Deno.test("listProcessors() lists as many as this process may use", () => {
  // Fewer if a control group limits their time.
  const { hardwareConcurrency } = navigator;
  assertEquals(listProcessors().length >= hardwareConcurrency, true);
});
