import { assertEquals, assertThrows } from "@std/assert";
import { type KernelOptions, parseKernelOptions } from "./options.ts";
import { CORE_FILTER } from "./select.ts";
import { testRows } from "../../tests/_harness/table.ts";

const NOTHING = {
  core: false,
  verbose: false,
  files: [],
  testArgs: [],
  isWhole: false,
};

testRows("parseKernelOptions() reads options and files", [
  [[], { isWhole: true }],
  [["--core", "--verbose"], {
    core: true,
    verbose: true,
    isWhole: true,
    testArgs: ["--filter", CORE_FILTER],
  }],
  [["--core", "--filter", "GC"], { core: true, testArgs: ["--filter", "GC"] }],
  [["--filter", "BR-5"], { testArgs: ["--filter", "BR-5"] }],
  [["--filter=BR-5", "./tests/chain_test.ts", "a_test.ts"], {
    testArgs: ["--filter", "BR-5"],
    files: ["tests/chain_test.ts", "a_test.ts"],
  }],
], ([args, options]: [string[], Partial<KernelOptions>]) => {
  assertEquals(parseKernelOptions(args), { ...NOTHING, ...options });
}, ([args]) => args.join(" ") || "nothing");

testRows<[string[], string]>("parseKernelOptions() refuses what it cannot do", [
  [["--jobs=2"], 'Cannot use "--jobs=2"'],
  [["--filter"], "Cannot use --filter without a text"],
  [["--core", "a_test.ts"], 'Cannot use --core with "a_test.ts"'],
], ([args, message]) => {
  assertThrows(() => parseKernelOptions(args), Error, message);
}, ([args]) => args.join(" "));
