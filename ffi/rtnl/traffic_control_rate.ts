/**
 * Rates and token buckets, as the kernel has them.
 *
 * @module
 */

/**
 * The unit in which buckets are given, in nanoseconds.
 *
 * Source: include/net/pkt_sched.h `PSCHED_SHIFT`, since Linux 2.6.31.
 */
export const NANOSECONDS_PER_TICK = 64;
/** The largest number of 32 bits, which stands for all that are larger. */
export const MAX_U32 = 0xffff_ffff;

/** A rate in the 32 bits that a struct has for it, and in 64 if it needs them. */
export interface EncodedRate {
  /** At most {@linkcode MAX_U32}. */
  readonly spec: { readonly rate: number };
  /** Undefined if the other is enough. */
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
