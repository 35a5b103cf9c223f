/**
 * Options of each kind of qdisc, class, filter and action (TCA_OPTIONS), by the
 * kind's name.
 *
 * Source: include/uapi/linux/pkt_sched.h, include/uapi/linux/pkt_cls.h,
 * Documentation/netlink/specs/tc.yaml.
 *
 * @module
 */

import {
  type Bytes,
  type Codec,
  concat,
  i32,
  struct,
  u16,
  u16be,
  u32,
  u32be,
  u64,
  u8,
} from "../../net/bytes.ts";
import {
  type AttributeSet,
  attributeSet,
  type AttributeValues,
  cstring,
  type Row,
} from "../netlink/attribute.ts";

/** A rate in bytes per second, up to 32 bits. Source: `struct tc_ratespec`. */
const rateSpec = struct({
  cellLog: u8,
  linkLayer: u8,
  overhead: u16,
  cellAlign: u16,
  mpu: u16,
  rate: u32,
});

/** Source: `struct tc_tbf_qopt`. */
const bucket = struct({
  rate: rateSpec,
  peakRate: rateSpec,
  limit: u32,
  buffer: u32,
  mtu: u32,
});

/** Source: `TCA_TBF_*`. */
const tbfOptions = attributeSet({
  bucket: [1, bucket],
  rate64: [4, u64],
  burst: [6, u32],
});

/** Source: `struct tc_htb_opt`. */
const htbClass = struct({
  rate: rateSpec,
  ceil: rateSpec,
  buffer: u32,
  ceilBuffer: u32,
  quantum: u32,
  level: u32,
  priority: u32,
});

/** Source: `struct tc_htb_glob`. */
const htbGlobal = struct({
  version: u32,
  rateToQuantum: u32,
  defaultClass: u32,
  debug: u32,
  directPackets: u32,
});

/** Options of a class, and `global` of the qdisc. Source: `TCA_HTB_*`. */
const htbOptions = attributeSet({
  class: [1, htbClass],
  global: [2, htbGlobal],
  rate64: [6, u64],
  ceil64: [7, u64],
});

/** Source: `struct tc_fifo_qopt`. */
const fifoOptions = struct({ limit: u32 });

/** Source: `struct tc_u32_sel`, without the keys at its end. */
const selectorHeader = struct({
  flags: u8,
  offsetShift: u8,
  keyCount: u8,
  padding: u8,
  offsetMask: u16be,
  offset: u16,
  offsetOffset: u16,
  hashOffset: u16,
  hashMask: u32be,
});

/** Source: `struct tc_u32_key`. */
const selectorKey = struct({
  mask: u32be,
  value: u32be,
  offset: i32,
  offsetMask: i32,
});

/** Four bytes that a u32 filter compares. */
export interface SelectorKey {
  /** The bits to compare. */
  readonly mask: number;
  /** The value that these bits must have. */
  readonly value: number;
  /** Offset of the bytes from the network header. */
  readonly offset: number;
}

/** The keys of a u32 filter, which matches if all keys match. */
export interface Selector {
  /** Source: include/uapi/linux/pkt_cls.h `TC_U32_*`. */
  readonly flags: number;
  readonly keys: readonly SelectorKey[];
}

const selector: Codec<Selector> = {
  encode: ({ flags, keys }) =>
    concat([
      selectorHeader.encode({ flags, keyCount: keys.length }),
      ...keys.map(({ mask, value, offset }) =>
        selectorKey.encode({ mask, value, offset })
      ),
    ]),
  decode(bytes): Selector {
    const { flags, keyCount } = selectorHeader.decode(bytes);
    const keys = Array.from({ length: keyCount }, (_, at) => {
      const start = selectorHeader.size + at * selectorKey.size;
      const { mask, value, offset } = selectorKey.decode(bytes.subarray(start));
      return { mask, value, offset };
    });
    return { flags, keys };
  },
};

/** Source: include/uapi/linux/tc_act/tc_mirred.h `struct tc_mirred`. */
const mirred = struct({
  index: u32,
  capabilities: u32,
  action: i32,
  references: i32,
  bindings: i32,
  mirredAction: i32,
  ifindex: u32,
});

/** Source: include/uapi/linux/tc_act/tc_mirred.h `TCA_MIRRED_*`. */
const mirredOptions = attributeSet({ mirred: [2, mirred] });

/** Source: include/uapi/linux/pkt_cls.h `TCA_ACT_KIND`, `TCA_ACT_OPTIONS`. */
const action = kindAttributes<ValuesOf<typeof mirredOptions>>({
  mirred: mirredOptions,
});

/** Actions are numbered in order. Our filters have a single action. */
const actions = attributeSet({ first: [1, action] });

/** Source: `TCA_U32_*`. */
const u32Options = attributeSet({
  classId: [1, u32],
  selector: [5, selector],
  actions: [7, actions],
});

type ValuesOf<S> = S extends Codec<infer T> ? T : never;

/** Options of any supported kind. */
export type KindOptions =
  & Omit<ValuesOf<typeof tbfOptions>, "rate64">
  & ValuesOf<typeof htbOptions>
  & ValuesOf<typeof fifoOptions>
  & ValuesOf<typeof u32Options>;

/** The codec of each kind's options; clsact and ingress have none. */
export const trafficControlKinds: Readonly<Record<string, Codec<KindOptions>>> =
  {
    tbf: tbfOptions,
    htb: htbOptions,
    bfifo: fifoOptions,
    u32: u32Options,
  };

/**
 * Declares the attributes for a kind and its options. The kind determines the
 * options' codec.
 *
 * Source: `TCA_KIND` and `TCA_OPTIONS`, and the same numbers for actions.
 *
 * @param kinds The codecs of the kinds' options; options of other kinds are ignored
 */
export function kindAttributes<O>(
  kinds: Readonly<Record<string, Codec<O>>>,
): AttributeSet<KindRows<O>> {
  const setOf = (
    { kind = "" }: AttributeValues<KindRows<O>>,
  ): AttributeSet<KindRows<O>> =>
    attributeSet({
      kind: [1, cstring],
      options: [2, kinds[kind] ?? noOptions as Codec<O>],
    });
  const setIn = (bytes: Bytes): AttributeSet<KindRows<O>> =>
    setOf(setOf({}).decode(bytes));
  return {
    encode: (values) => setOf(values).encode(values),
    decode: (bytes) => setIn(bytes).decode(bytes),
    locate: (bytes, offset) => setIn(bytes).locate(bytes, offset),
  };
}

/** The attributes of {@linkcode kindAttributes}. */
export type KindRows<O> = { kind: Row<string>; options: Row<O> };

const noOptions: Codec<object> = {
  encode: () => new Uint8Array(0),
  decode: () => ({}),
};

/**
 * The unit of bucket sizes, in nanoseconds.
 *
 * Source: include/net/pkt_sched.h `PSCHED_SHIFT`, since Linux 2.6.31.
 */
export const NANOSECONDS_PER_TICK = 64;
/** The largest 32-bit number, which replaces all larger numbers. */
export const MAX_U32 = 0xffff_ffff;

/** A rate in the 32 bits of its struct, and in 64 bits if necessary. */
export interface EncodedRate {
  /** The rate, at most {@linkcode MAX_U32}. */
  readonly spec: { readonly rate: number };
  /** The whole rate; undefined if 32 bits are enough. */
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
