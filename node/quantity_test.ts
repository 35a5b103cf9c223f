import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../base/error.ts";
import { parseQuantity } from "./quantity.ts";
import { testRows } from "../tests/_harness/table.ts";

testRows<[string, bigint]>("parseQuantity() reads what Kubernetes writes", [
  ["0", 0n],
  ["10", 10n],
  ["+10", 10n],
  ["-10", -10n],
  ["007", 7n],
  ["10M", 10_000_000n],
  ["1k", 1_000n],
  ["1G", 1_000_000_000n],
  ["1T", 10n ** 12n],
  ["1P", 10n ** 15n],
  ["1E", 10n ** 18n],
  ["1Ki", 1_024n],
  ["1Mi", 1_048_576n],
  ["1Gi", 1_073_741_824n],
  ["1Ei", 1n << 60n],
  ["1.5Gi", 1_610_612_736n],
  ["1e6", 1_000_000n],
  ["1E6", 1_000_000n],
  ["1e+6", 1_000_000n],
  ["1.25e3", 1_250n],
  [".5k", 500n],
  ["5.", 5n],
  ["1e0", 1n],
], ([text, value]) => assertEquals(parseQuantity(text), value));

testRows<[string, bigint]>("parseQuantity() rounds up", [
  ["1m", 1n],
  ["1000m", 1n],
  ["1001m", 2n],
  ["1u", 1n],
  ["1n", 1n],
  ["0n", 0n],
  ["1.1", 2n],
  ["1e-3", 1n],
  ["-1.5", -1n],
  ["0.0001Ki", 1n],
], ([text, value]) => assertEquals(parseQuantity(text), value));

Deno.test("parseQuantity() stays quick where an exponent is absurd", () => {
  assertEquals(parseQuantity("1e999999999") > 10n ** 19n, true);
  assertEquals(parseQuantity("1e-999999999"), 1n);
});

testRows("parseQuantity() refuses anything else", [
  "",
  ".",
  "M",
  "10 M",
  " 10",
  "10\n",
  "1.2.3",
  "--1",
  "10m10",
  "10K",
  "10mi",
  "10Mb",
  "1e",
  "1e1.5",
  "0x10",
  "٣",
  "Infinity",
], (text) => {
  const error = assertThrows(() => parseQuantity(text), CniError);
  assertEquals(error.code, 7);
}, (text) => JSON.stringify(text));
