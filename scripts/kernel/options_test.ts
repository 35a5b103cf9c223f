import { assertEquals, assertThrows } from "@std/assert";
import { type KernelOptions, parseKernelOptions } from "./options.ts";
import { CORE_FILTER } from "./select.ts";

const NOTHING = {
  core: false,
  verbose: false,
  files: [],
  testArgs: [],
  isWhole: false,
};

Deno.test("parseKernelOptions() reads options and files", async (t) => {
  const rows: [args: string[], options: Partial<KernelOptions>][] = [
    [[], { isWhole: true }],
    [["--core", "--verbose"], {
      core: true,
      verbose: true,
      isWhole: true,
      testArgs: ["--filter", CORE_FILTER],
    }],
    [["--core", "--filter", "GC"], {
      core: true,
      testArgs: ["--filter", "GC"],
    }],
    [["--filter", "BR-5"], { testArgs: ["--filter", "BR-5"] }],
    [["--filter=BR-5", "./tests/chain_test.ts", "a_test.ts"], {
      testArgs: ["--filter", "BR-5"],
      files: ["tests/chain_test.ts", "a_test.ts"],
    }],
  ];
  for (const [args, options] of rows) {
    await t.step(args.join(" ") || "nothing", () => {
      assertEquals(parseKernelOptions(args), { ...NOTHING, ...options });
    });
  }
});

Deno.test("parseKernelOptions() refuses what it cannot do", async (t) => {
  const rows: [args: string[], message: string][] = [
    [["--jobs=2"], 'Cannot use "--jobs=2"'],
    [["--filter"], "Cannot use --filter without a text"],
    [["--core", "a_test.ts"], 'Cannot use --core with "a_test.ts"'],
  ];
  for (const [args, message] of rows) {
    await t.step(args.join(" "), () => {
      assertThrows(() => parseKernelOptions(args), Error, message);
    });
  }
});
