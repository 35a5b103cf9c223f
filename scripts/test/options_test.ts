import { assertEquals, assertThrows } from "@std/assert";
import { choosePace, parseOptions, type TestOptions } from "./options.ts";
import { testRows } from "../../tests/_harness/table.ts";

testRows("choosePace() has more files than cores, within reason", [
  [0, 3, 4],
  [1, 3, 4],
  [2, 4, 8],
  [4, 4, 12],
  [64, 4, 12],
], ([cores = 0, jobs, more]) => {
  assertEquals(choosePace(cores), { jobs, more });
}, ([cores]) => `${cores} cores`);

const NOTHING: TestOptions = {
  jobs: undefined,
  fast: false,
  verbose: false,
  rootless: false,
  denoArgs: [],
};

testRows<[string[], Partial<TestOptions>]>(
  "parseOptions() keeps what is ours, and leaves the rest to deno",
  [
    [[], {}],
    [["--fast"], { fast: true }],
    [["--jobs", "2"], { jobs: 2 }],
    [["--jobs=1", "--verbose"], { jobs: 1, verbose: true }],
    [
      ["plugins/ptp", "--filter", "gc"],
      { denoArgs: ["plugins/ptp", "--filter", "gc"] },
    ],
    [["--rootless", "plugins/ptp"], {
      rootless: true,
      denoArgs: ["plugins/ptp"],
    }],
  ],
  ([args, options]) => {
    assertEquals(parseOptions(args), { ...NOTHING, ...options });
  },
  ([args]) => args.join(" ") || "nothing",
);

testRows<[string[], string]>("parseOptions() refuses what it cannot do", [
  [["--rootless"], "Cannot use --rootless without a path or --filter"],
  [["--jobs"], 'Cannot use "" as --jobs'],
  [["--jobs", "0"], 'Cannot use "0" as --jobs'],
  [["--jobs=two"], 'Cannot use "two" as --jobs'],
  [["--jobs", "2", "plugins"], 'Cannot use --jobs with "plugins"'],
  [["--fast", "plugins"], 'Cannot use --fast with "plugins"'],
], ([args, message]) => {
  assertThrows(() => parseOptions(args), Error, message);
}, ([args]) => args.join(" "));
