/**
 * Rates and token buckets, as the kernel encodes them.
 *
 * @module
 */

/**
 * The unit of bucket sizes, in nanoseconds.
 *
 * Source: include/net/pkt_sched.h `PSCHED_SHIFT`, since Linux 2.6.31.
 */
export const NANOSECONDS_PER_TICK = 64;
/** The largest 32-bit number, which stands for all larger ones. */
export const MAX_U32 = 0xffff_ffff;

/** A rate in the 32 bits of its struct, and in 64 bits if it needs them. */
export interface EncodedRate {
  /** At most {@linkcode MAX_U32}. */
  readonly spec: { readonly rate: number };
  /** Undefined if 32 bits are enough. */
  readonly rate64: bigint | undefined;
}

/**
 * Encodes a rate.
 *
 * @param bytesPerSecond A whole number, up to 2^64 - 1
 */
export function encodeRate(bytesPerSecond: number): EncodedRate {
  return bytesPerSecond > MAX_U32
    ? { spec: { rate: MAX_U32 }, rate64: BigInt(bytesPerSecond) }
    : { spec: { rate: bytesPerSecond }, rate64: undefined };
}

/** Decodes a rate into bytes per second. */
export function decodeRate(
  spec: { readonly rate?: number } | undefined,
  rate64: bigint | undefined,
): number {
  return rate64 === undefined ? spec?.rate ?? 0 : Number(rate64);
}
