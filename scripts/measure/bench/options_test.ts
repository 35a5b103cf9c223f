import { assertEquals, assertThrows } from "@std/assert";
import { ROOT } from "../../compile/project.ts";
import { parseOptions } from "./options.ts";
import { testRows } from "../../../tests/_harness/table.ts";

const DEFAULTS = {
  bin: undefined,
  peers: [],
  json: false,
  quick: false,
  growth: false,
  rounds: undefined,
  filter: "",
  out: `${ROOT}dist/bench`,
};

testRows<[string[], object]>("parseOptions() reads the command line", [
  [[], {}],
  [["--quick", "--json", "--growth"], {
    quick: true,
    json: true,
    growth: true,
  }],
  [["--peer", "/a", "--peer", "/b"], { peers: ["/a", "/b"] }],
  [["--bin=/x", "--out=/y"], { bin: "/x", out: "/y" }],
  [["--rounds", "7", "--filter", "ptp, 0"], { rounds: 7, filter: "ptp, 0" }],
  [["--rounds", "1000"], { rounds: 1000 }],
], ([args, options]) => {
  assertEquals(parseOptions(args), { ...DEFAULTS, ...options });
}, ([args]) => args.join(" ") || "nothing");

Deno.test("parseOptions() takes directories from where it is called", () => {
  const { peers } = parseOptions(["--peer", "elsewhere"]);
  assertEquals(peers, [`${Deno.cwd()}/elsewhere`]);
});

testRows("parseOptions() refuses what it does not know", [
  ["--fast"],
  ["ptp"],
  ["--rounds", "0"],
  ["--rounds", "1001"],
  ["--rounds", "many"],
  ["--rounds"],
], (args) => {
  assertThrows(() => parseOptions(args), Error, "usage: ");
}, (args) => args.join(" "));
