import { assertEquals } from "@std/assert";
import {
  bucketOf,
  isSameBuffer,
  isSmallerThanFrame,
  listBucketProblems,
  mayBeCutOff,
  withExactBurst,
} from "./token_bucket.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

const MTU = 1500;
const KUBELET_BURST = 2 ** 31 - 1;

function bucketFor(
  bitsPerSecond: number,
  burstBits: number,
): ReturnType<typeof bucketOf> {
  return bucketOf({ bitsPerSecond, burstBits }, MTU);
}

Deno.test("bucketOf() computes what the Go plugin sends", async (t) => {
  type Numbers = [rate: number, size: number, ticks: number, limit: number];
  const rows: [rate: number, burst: number, want: Numbers][] = [
    [8, 8, [1, 1, 15_625_000, 1]],
    [16, 8, [2, 1, 7_812_500, 1]],
    [8000, 80, [1000, 10, 156_250, 35]],
    [8000, 16_000, [1000, 2000, 31_250_000, 2025]],
    [123, 456, [15, 57, 59_375_000, 57]],
    [10e6, KUBELET_BURST, [1_250_000, 268_435_455, 3_355_443_187, 268_466_705]],
    [3e6, 1e6, [375_000, 125_000, 5_208_328, 134_375]],
    [10e9, 80e6, [1.25e9, 10e6, 125_000, 41_250_000]],
    [320e9, 8e9, [40e9, 1e9, 390_625, 2e9]],
  ];
  await eachRow(t, rows, ([rate, burst, want]) => {
    const bucket = bucketFor(rate, burst);
    assertEquals([
      bucket.bytesPerSecond,
      bucket.sizeBytes,
      bucket.bufferTicks,
      bucket.limitBytes,
    ], want);
  }, ([rate, burst]) => `${rate} bit/s, ${burst} bits`);
});

testRows("bucketOf() stays within the kernel's limits", [
  ["ticks that the Go plugin would wrap round", 1e6, KUBELET_BURST, {
    bytesPerSecond: 125_000,
    bufferTicks: 2 ** 32 - 1,
    limitBytes: 268_438_580,
  }],
  ["a limit that it would wrap round", 80e9, 34e9, {
    bytesPerSecond: 10e9,
    limitBytes: 2 ** 32 - 1,
  }],
  ["a rate below a byte per second", 7, 80, { bytesPerSecond: 1 }],
  ["a burst below a byte", 80, 7, { sizeBytes: 1 }],
  ["the fastest of rates", 2 ** 64, 8e9, { bytesPerSecond: 2 ** 61 }],
  ["the largest of bursts", 8e9, (2 ** 32 - 2) * 8, { sizeBytes: 2 ** 32 - 2 }],
], ([, rate, burst, want]: [string, number, number, object]) => {
  const bucket = bucketFor(rate, burst);
  assertEquals({ ...bucket, ...want }, bucket);
});

testRows("bucketOf() returns bytes if ticks cannot express the burst", [
  ["as many ticks as there can be", 8e6, 274_877e4 * 0.8, false],
  ["more than there can be", 1e6, KUBELET_BURST, true],
  ["the burst of kubelet at 10 Mbit/s", 10e6, KUBELET_BURST, false],
  ["a byte lost of many", 3e6, 1e6, false],
  ["a byte lost that a packet of full size needs", 3e6, 1514 * 8, true],
  ["more lost than a hundredth", 10e9, 12_000 * 8, true],
  ["less than a microsecond", 100e9, 10_000 * 8, true],
  ["less than one byte told", 24, 8, true],
], ([, rate, burst, isExact]: [string, number, number, boolean]) => {
  const { burstBytes } = bucketFor(rate, burst);
  assertEquals(burstBytes, isExact ? Math.floor(burst / 8) : undefined);
});

testRows("mayBeCutOff() reports bursts longer than 32 bits of nanoseconds", [
  ["4.29 s", 8e6, 34_352_000, false],
  ["4.3 s", 8e6, 34_400_000, true],
  ["so long that bytes are given anyhow", 1e6, KUBELET_BURST, false],
], ([, rate, burst, may]: [string, number, number, boolean]) => {
  const bucket = bucketFor(rate, burst);
  assertEquals(mayBeCutOff(bucket), may);
  assertEquals(mayBeCutOff(withExactBurst(bucket)), false);
});

Deno.test("isSmallerThanFrame() counts the Ethernet header", () => {
  const isSmall = (bytes: number): boolean =>
    isSmallerThanFrame(bucketFor(8e6, bytes * 8), MTU);
  assertEquals([isSmall(1513), isSmall(1514)], [true, false]);
});

Deno.test("isSameBuffer() allows for rounding and for the kernel's 32-bit values", async (t) => {
  const small = bucketFor(3e6, 1e6);
  const large = bucketFor(10e6, KUBELET_BURST);
  const huge = bucketFor(1e6, KUBELET_BURST);
  const rows: [string, typeof small, number, boolean][] = [
    ["the Go plugin's ticks", small, 5_208_328, true],
    ["the kernel's, from bytes", small, 5_208_333, true],
    ["a millisecond more", small, 5_208_328 + 15_625, false],
    ["ten times as much", small, 52_083_280, false],
    [
      "what the kernel cut off, though the burst is small",
      small,
      2 ** 26 - 1,
      false,
    ],
    ["what the kernel cut off of the Go plugin's", large, 2 ** 26 - 1, true],
    ["the kernel's, from bytes, of a large burst", large, 3_355_443_187, true],
    ["half of it", large, 1_677_721_593, false],
    ["the lower bits of more than 32", huge, 33_554_431_875 % 2 ** 32, true],
    ["other bits", huge, 12_345, false],
  ];
  await eachRow(
    t,
    rows,
    ([, bucket, ticks, same]) =>
      assertEquals(isSameBuffer(bucket, ticks), same),
  );
});

Deno.test("listBucketProblems() returns the Go plugin's messages", async (t) => {
  const wanted = bucketFor(8e6, 8e6);
  assertEquals(listBucketProblems(wanted, wanted), []);
  const rows: [change: object, text: string][] = [
    [{ bytesPerSecond: 1e6 + 1 }, "Rate doesn't match"],
    [{ limitBytes: 1 }, "Limit doesn't match"],
    [{ bufferTicks: 1 }, "Buffer doesn't match"],
  ];
  await eachRow(t, rows, ([change, text]) => {
    const found = listBucketProblems(wanted, { ...wanted, ...change });
    assertEquals(found.map((one) => one.split(":")[0]), [text]);
  }, ([, text]) => text);
  const all = Object.assign({}, ...rows.map(([change]) => change));
  assertEquals(listBucketProblems(wanted, all).length, rows.length);
});
