import { assertEquals, assertThrows } from "@std/assert";
import { chooseJobs, parseOptions, type TestOptions } from "./options.ts";
import { testRows } from "../../tests/_harness/table.ts";

testRows("chooseJobs() has two files more than cores, and four at most", [
  [0, 3],
  [1, 3],
  [2, 4],
  [4, 4],
  [64, 4],
], ([cores, jobs]) => {
  assertEquals(chooseJobs(cores ?? 0), jobs);
}, ([cores]) => `${cores} cores`);

testRows("parseOptions() keeps what is ours, and leaves the rest to deno", [
  [[], { jobs: 4, verbose: false, denoArgs: [] }],
  [["--jobs", "2"], { jobs: 2, verbose: false, denoArgs: [] }],
  [["--jobs=1", "--verbose"], { jobs: 1, verbose: true, denoArgs: [] }],
  [
    ["plugins/ptp", "--filter", "gc"],
    { jobs: 4, verbose: false, denoArgs: ["plugins/ptp", "--filter", "gc"] },
  ],
], ([args, options]: [string[], TestOptions]) => {
  assertEquals(parseOptions(args, 2), options);
}, ([args]) => args.join(" ") || "nothing");

testRows<[string[], string]>("parseOptions() refuses what it cannot do", [
  [["--jobs"], 'Cannot use "" as --jobs'],
  [["--jobs", "0"], 'Cannot use "0" as --jobs'],
  [["--jobs=two"], 'Cannot use "two" as --jobs'],
  [["--jobs", "2", "plugins"], 'Cannot use --jobs with "plugins"'],
], ([args, message]) => {
  assertThrows(() => parseOptions(args, 2), Error, message);
}, ([args]) => args.join(" "));
