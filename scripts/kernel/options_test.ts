import { assertEquals, assertThrows } from "@std/assert";
import { type KernelOptions, parseKernelOptions } from "./options.ts";
import { CORE_FILTER } from "./select.ts";
import { eachRow } from "../../tests/_harness/table.ts";

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
  await eachRow(t, rows, ([args, options]) => {
    assertEquals(parseKernelOptions(args), { ...NOTHING, ...options });
  }, ([args]) => args.join(" ") || "nothing");
});

Deno.test("parseKernelOptions() refuses what it cannot do", async (t) => {
  const rows: [args: string[], message: string][] = [
    [["--jobs=2"], 'Cannot use "--jobs=2"'],
    [["--filter"], "Cannot use --filter without a text"],
    [["--core", "a_test.ts"], 'Cannot use --core with "a_test.ts"'],
  ];
  await eachRow(t, rows, ([args, message]) => {
    assertThrows(() => parseKernelOptions(args), Error, message);
  }, ([args]) => args.join(" "));
});
