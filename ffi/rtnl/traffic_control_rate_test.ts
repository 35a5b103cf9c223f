import { assertEquals } from "@std/assert";
import { decodeRate, encodeRate } from "./traffic_control_rate.ts";
import { testRows } from "../../tests/_harness/table.ts";

testRows("encodeRate() uses 64 bits where 32 are too few", [
  [0, 0, undefined],
  [1_250_000, 1_250_000, undefined],
  [2 ** 32 - 1, 2 ** 32 - 1, undefined],
  [2 ** 32, 2 ** 32 - 1, 2n ** 32n],
  [40e9, 2 ** 32 - 1, 40_000_000_000n],
  [2 ** 61, 2 ** 32 - 1, 2n ** 61n],
], ([rate, spec, rate64]: [number, number, bigint | undefined]) => {
  assertEquals(encodeRate(rate), { spec: { rate: spec }, rate64 });
  assertEquals(decodeRate({ rate: spec }, rate64), rate);
}, ([rate]) => `${rate} bytes per second`);

Deno.test("decodeRate() reads no rate as 0", () => {
  assertEquals(decodeRate(undefined, undefined), 0);
});
