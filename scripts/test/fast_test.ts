import { assertEquals } from "@std/assert";
import { isFast } from "./fast.ts";
import { testRows } from "../../tests/_harness/table.ts";

const DURATIONS = {
  whole: 60,
  files: {
    "cni/long_test.ts": 5,
    "tests/conformance/bridge_test.ts": 59,
    "tests/conformance/ptp_test.ts": 13,
  },
};

testRows<[string, boolean]>("isFast() chooses quick files about one part", [
  ["cni/args_test.ts", true],
  ["cni/long_test.ts", false],
  ["tests/conformance/ptp_test.ts", true],
  ["tests/conformance/sbr_test.ts", true],
  ["tests/conformance/bridge_test.ts", false],
  ["tests/conformance/bandwidth_test.ts", false],
  ["tests/chain_test.ts", false],
  ["scripts/test/fast_test.ts", false],
], ([path, expected]) => assertEquals(isFast(path, DURATIONS), expected));
