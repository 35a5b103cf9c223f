/**
 * Converts limits in bits to the values of the kernel's token buckets.
 *
 * @module
 */

import type { TokenBucket } from "../../ffi/rtnl/traffic_control_qdisc.ts";
import {
  MAX_U32,
  NANOSECONDS_PER_TICK,
} from "../../ffi/rtnl/traffic_control_kinds.ts";
import type { Limit } from "./limits.ts";

/** Maximum time that a packet waits for tokens. */
const LATENCY_MICROSECONDS = 25_000;
const MICROSECONDS = 1e6, NANOSECONDS = 1e9;
const TICKS_PER_MICROSECOND = 1000 / NANOSECONDS_PER_TICK;
/**
 * The most ticks that every kernel accepts: some kernels truncate ticks that
 * exceed 32 bits in nanoseconds.
 *
 * Source: net/sched/sch_tbf.c `tbf_change`.
 */
const MAX_SAFE_TICKS = Math.floor(MAX_U32 / NANOSECONDS_PER_TICK);

/** Length of an Ethernet header, which queues count. */
const HEADER_BYTES = 14;
/** Acceptable loss of a burst by rounding. */
const MAX_LOSS = 0.01;

/** A limit as kernel values. */
export interface Bucket extends TokenBucket {
  /** The burst, whether given by `burstBytes` or `bufferTicks`. */
  readonly sizeBytes: number;
}

/**
 * Computes the bucket of a limit. Its values equal the Go plugin's, including
 * rounding, so that each plugin's CHECK accepts the other plugin's limits. Only
 * values that are too large for the Go plugin differ: here, they are as large as
 * possible.
 *
 * `burstBytes` is set if ticks cannot express the burst.
 *
 * Source: containernetworking/plugins plugins/meta/bandwidth/ifb_creator.go.
 *
 * @param mtu MTU of the link, in bytes
 */
export function bucketOf(
  { bitsPerSecond, burstBits }: Limit,
  mtu: number,
): Bucket {
  const bytesPerSecond = bitsToBytes(bitsPerSecond);
  const sizeBytes = bitsToBytes(burstBits);
  const fillMicroseconds = toU32(sizeBytes * MICROSECONDS / bytesPerSecond);
  const bufferTicks = toU32(fillMicroseconds * TICKS_PER_MICROSECOND);
  const waitingBytes = bytesPerSecond * LATENCY_MICROSECONDS / MICROSECONDS;
  const limitBytes = toU32(toU32(waitingBytes) + sizeBytes);
  const bucket = { bytesPerSecond, sizeBytes, bufferTicks, limitBytes };
  return isPreciseEnough(bucket, mtu) ? bucket : withExactBurst(bucket);
}

/**
 * Converts bits to whole bytes, at least one byte, because the kernel has no smaller
 * bucket.
 */
function bitsToBytes(bits: number): number {
  return Math.max(1, Math.floor(bits / 8));
}

function toU32(value: number): number {
  return Math.min(MAX_U32, Math.floor(value));
}

/**
 * Reports whether ticks are precise enough: rounding loses little of the burst,
 * and full-size frames that fit into the burst still pass.
 */
function isPreciseEnough(
  { bufferTicks, bytesPerSecond, sizeBytes }: Bucket,
  mtu: number,
): boolean {
  const nanoseconds = bufferTicks * NANOSECONDS_PER_TICK;
  const reportedBytes = Math.floor(nanoseconds * bytesPerSecond / NANOSECONDS);
  return reportedBytes >= sizeBytes * (1 - MAX_LOSS) &&
    reportedBytes >= Math.min(sizeBytes, frameBytes(mtu));
}

/** Reports whether the kernel might truncate the bucket. */
export function mayBeCutOff({ bufferTicks, burstBytes }: Bucket): boolean {
  return burstBytes === undefined && bufferTicks > MAX_SAFE_TICKS;
}

/** Returns the bucket with a burst that no kernel truncates. */
export function withExactBurst(bucket: Bucket): Bucket {
  return { ...bucket, burstBytes: bucket.sizeBytes };
}

/** Reports whether a full-size frame is larger than the burst. */
export function isSmallerThanFrame(
  { sizeBytes }: Bucket,
  mtu: number,
): boolean {
  return sizeBytes < frameBytes(mtu);
}

/** Returns the length of a frame with a full-size packet, in bytes. */
export function frameBytes(mtu: number): number {
  return mtu + HEADER_BYTES;
}

/** Lists the differences between two buckets, in the Go plugin's words. */
export function listBucketProblems(
  wanted: Bucket,
  actual: TokenBucket,
): string[] {
  const compared = [
    ["Rate", "bytesPerSecond", "bytes per second"],
    ["Limit", "limitBytes", "bytes"],
    ["Buffer", "bufferTicks", "ticks"],
  ] as const;
  return compared.filter(([, key]) =>
    key === "bufferTicks"
      ? !isSameBuffer(wanted, actual[key])
      : actual[key] !== wanted[key]
  ).map(([name, key, unit]) =>
    `${name} doesn't match: ${actual[key]} ${unit} instead of ${wanted[key]}`
  );
}

/** Maximum error of rounding to microseconds and to ticks, in ticks. */
const ROUNDING_TICKS = TICKS_PER_MICROSECOND + 1;
/** The kernel multiplies by a rounded inverse of the rate. */
const INVERSE_ERROR = 2 ** -30;

/**
 * Reports whether a buffer matches a bucket. The kernel returns the lower 32 bits of
 * ticks, or its maximum if there were too many ticks, which the Go plugin still
 * sends.
 */
export function isSameBuffer(
  { sizeBytes, bytesPerSecond }: Bucket,
  ticks: number,
): boolean {
  const exact = sizeBytes * NANOSECONDS / bytesPerSecond /
    NANOSECONDS_PER_TICK;
  if (exact > MAX_SAFE_TICKS && ticks === MAX_SAFE_TICKS) return true;
  const distance = Math.abs(exact % 2 ** 32 - ticks);
  return Math.min(distance, 2 ** 32 - distance) <=
    ROUNDING_TICKS + exact * INVERSE_ERROR;
}
