/**
 * From bits, as configurations have them, to the numbers of the kernel's token
 * buckets.
 *
 * @module
 */

import type { TokenBucket } from "../../ffi/rtnl/traffic_control_qdisc.ts";
import {
  MAX_U32,
  NANOSECONDS_PER_TICK,
} from "../../ffi/rtnl/traffic_control_rate.ts";
import type { Limit } from "./limits.ts";

/** How long a packet may wait for tokens. */
const LATENCY_MICROSECONDS = 25_000;
const MICROSECONDS = 1e6, NANOSECONDS = 1e9;
const TICKS_PER_MICROSECOND = 1000 / NANOSECONDS_PER_TICK;
/**
 * More ticks than these some kernels cut off: as nanoseconds they have no room
 * in 32 bits.
 *
 * Source: net/sched/sch_tbf.c `tbf_change`.
 */
const MAX_SAFE_TICKS = Math.floor(MAX_U32 / NANOSECONDS_PER_TICK);

/** Length of an Ethernet header, which counts where packets are queued. */
const HEADER_BYTES = 14;
/** How much of a burst may be lost to rounding. */
const MAX_LOSS = 0.01;

/** A limit in the kernel's numbers. */
export interface Bucket extends TokenBucket {
  /** What may pass at once, whether `burstBytes` says so or `bufferTicks`. */
  readonly sizeBytes: number;
}

/**
 * Computes the bucket of a limit. Its numbers are the Go plugin's, rounding
 * included, so that either's CHECK is content with the other's, but for those
 * that are too large there: they are as large as they can be here.
 *
 * `burstBytes` is set where ticks cannot tell the burst.
 *
 * Source: containernetworking/plugins plugins/meta/bandwidth/ifb_creator.go.
 *
 * @param mtu Of the link, in bytes
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
  return tellsBurst(bucket, mtu) ? bucket : withExactBurst(bucket);
}

/** Turns bits into whole bytes, at least one: the kernel has no smaller bucket. */
function bitsToBytes(bits: number): number {
  return Math.max(1, Math.floor(bits / 8));
}

function toU32(value: number): number {
  return Math.min(MAX_U32, Math.floor(value));
}

/**
 * Says whether ticks are exact enough: little is lost to rounding, and a frame
 * of full size still passes if it would otherwise.
 */
function tellsBurst(
  { bufferTicks, bytesPerSecond, sizeBytes }: Bucket,
  mtu: number,
): boolean {
  const nanoseconds = bufferTicks * NANOSECONDS_PER_TICK;
  const toldBytes = Math.floor(nanoseconds * bytesPerSecond / NANOSECONDS);
  return toldBytes >= sizeBytes * (1 - MAX_LOSS) &&
    toldBytes >= Math.min(sizeBytes, frameBytes(mtu));
}

/** Says whether the kernel may make less of a bucket than it is told. */
export function mayBeCutOff({ bufferTicks, burstBytes }: Bucket): boolean {
  return burstBytes === undefined && bufferTicks > MAX_SAFE_TICKS;
}

/** Returns the bucket with a burst that no kernel cuts off. */
export function withExactBurst(bucket: Bucket): Bucket {
  return { ...bucket, burstBytes: bucket.sizeBytes };
}

/** Says whether a frame of full size has more bytes than may pass at once. */
export function isSmallerThanFrame(
  { sizeBytes }: Bucket,
  mtu: number,
): boolean {
  return sizeBytes < frameBytes(mtu);
}

/** Returns how long a frame with a packet of full size is, in bytes. */
export function frameBytes(mtu: number): number {
  return mtu + HEADER_BYTES;
}

/**
 * Compares a bucket of the kernel with one that is wanted.
 *
 * @returns What differs, in the Go plugin's words, or undefined
 */
export function findDifference(
  wanted: Bucket,
  actual: TokenBucket,
): string | undefined {
  if (actual.bytesPerSecond !== wanted.bytesPerSecond) {
    return `Rate doesn't match: ${actual.bytesPerSecond} bytes per second instead of ${wanted.bytesPerSecond}`;
  }
  if (actual.limitBytes !== wanted.limitBytes) {
    return `Limit doesn't match: ${actual.limitBytes} bytes instead of ${wanted.limitBytes}`;
  }
  if (!isSameBuffer(wanted, actual.bufferTicks)) {
    return `Buffer doesn't match: ${actual.bufferTicks} ticks instead of ${wanted.bufferTicks}`;
  }
  return undefined;
}

/** What rounding to microseconds and to ticks can come to, in ticks. */
const ROUNDING_TICKS = TICKS_PER_MICROSECOND + 1;
/** The kernel multiplies by a rounded inverse of the rate. */
const INVERSE_ERROR = 2 ** -30;

/**
 * Says whether a buffer is the one of a bucket. The kernel tells the lower 32
 * bits of ticks, or the most that it made of ticks that were too many, as the
 * Go plugin still sends them.
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
