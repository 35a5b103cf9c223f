import { assertEquals, assertThrows } from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";
import { parseOptions, type TestOptions } from "../test.ts";

const NOTHING: TestOptions = {
  scope: "tests",
  jobs: undefined,
  rootless: false,
  denoArgs: [],
};

testRows<[string[], Partial<TestOptions>]>(
  "parseOptions() keeps what is ours, and leaves the rest to deno",
  [
    [[], {}],
    [["--fast"], { scope: "fast" }],
    [["--jobs", "2"], { jobs: 2 }],
    [["--whole", "--jobs=1"], { scope: "whole", jobs: 1 }],
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
