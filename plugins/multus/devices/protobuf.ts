/**
 * Protocol buffers, declared as tables: one row `name: kind(number)` is the
 * encoder, the decoder and the TypeScript type of a field.
 *
 * Only the field types of the kubelet's responses are supported. Unknown fields
 * are skipped, so that newer kubelets may send more.
 *
 * Source: https://protobuf.dev/programming-guides/encoding.
 *
 * @module
 */

import type { Bytes } from "../../../ffi/libc.ts";
import { type Codec, concat } from "../../../ffi/netlink/struct.ts";

/** The wire type: the lower three bits of a tag. */
const WIRE_TYPE_BITS = 3;
const WireType = {
  Varint: 0,
  Fixed64: 1,
  Bytes: 2,
  GroupStart: 3,
  GroupEnd: 4,
  Fixed32: 5,
} as const;

/** Seven bits per byte, so ten bytes for 64 bits. */
const LONGEST_VARINT = 10;
const LARGEST_FIELD_NUMBER = 2 ** 29 - 1;

/** A field of a message, by its TypeScript type. */
export interface Field<T> {
  /** Its number in the message. */
  readonly number: number;
  /** Returns the value of an absent field. */
  start(): T;
  /** Adds one occurrence of the field; returns the new value. */
  add(before: T, payload: Bytes): T;
  /** Encodes the value as occurrences of the field. */
  encode(value: T): Bytes[];
}

/** Fields by name. */
export type Fields = Readonly<Record<string, Field<unknown>>>;

/** The value of a message with these fields. */
export type MessageValue<F extends Fields> = {
  [K in keyof F]: F[K] extends Field<infer T> ? T : never;
};

/** The value that a codec decodes. */
export type ValueOf<C> = C extends Codec<infer T> ? T : never;

/** Declares a `string`; "" if absent. */
export function text(number: number): Field<string> {
  return {
    number,
    start: (): string => "",
    add: (_, payload): string => decodeUtf8(payload),
    encode: (value): Bytes[] => value === "" ? [] : [encodeUtf8(value)],
  };
}

/** Declares a `repeated string`. */
export function texts(number: number): Field<string[]> {
  return repeated(number, { encode: encodeUtf8, decode: decodeUtf8 });
}

/** Declares a `repeated` message. */
export function messages<T>(number: number, codec: Codec<T>): Field<T[]> {
  return repeated(number, codec);
}

function repeated<T>(number: number, codec: Codec<T>): Field<T[]> {
  return {
    number,
    start: (): T[] => [],
    add(before, payload): T[] {
      before.push(codec.decode(payload));
      return before;
    },
    encode: (value): Bytes[] => value.map((item) => codec.encode(item)),
  };
}

/**
 * Declares a message. Decoding throws a RangeError if the bytes end early or are
 * malformed.
 */
export function message<F extends Fields>(
  fields: F,
): Codec<MessageValue<F>> {
  const rows = Object.entries(fields);
  return {
    encode(value): Bytes {
      const parts = rows.flatMap(([name, field]) =>
        field.encode(value[name]).flatMap((payload) =>
          encodeField(field.number, payload)
        )
      );
      return concat(parts);
    },
    decode(bytes): MessageValue<F> {
      const values = new Map(rows.map(([name, row]) => [name, row.start()]));
      for (const { number, payload } of readFields(bytes)) {
        const row = rows.find(([, field]) => field.number === number);
        if (row === undefined) continue;
        const [name, field] = row;
        values.set(name, field.add(values.get(name), payload));
      }
      return Object.fromEntries(values) as MessageValue<F>;
    },
  };
}

/**
 * Reads the length-delimited fields. Other types and whole groups are skipped.
 */
function* readFields(
  bytes: Bytes,
): Generator<{ readonly number: number; readonly payload: Bytes }> {
  const reader = new Reader(bytes);
  const groups: number[] = [];
  while (!reader.isAtEnd) {
    const { number, wireType } = reader.readTag();
    if (wireType === WireType.Bytes) {
      const payload = reader.take(reader.readVarint());
      if (groups.length === 0) yield { number, payload };
    } else if (wireType === WireType.GroupStart) {
      groups.push(number);
    } else if (wireType === WireType.GroupEnd) {
      if (groups.pop() !== number) throw malformed("a group that never began");
    } else reader.skip(wireType);
  }
  if (groups.length > 0) throw malformed("a group without an end");
}

/** A position in bytes. */
class Reader {
  readonly #bytes: Bytes;
  #at = 0;

  constructor(bytes: Bytes) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  /** Returns the next bytes. */
  take(length: number): Bytes {
    const left = this.#bytes.length - this.#at;
    if (length > left) {
      throw malformed(`${length} bytes where ${left} are left`);
    }
    return this.#bytes.subarray(this.#at, this.#at += length);
  }

  /** Returns a number; above 2^53 it is not exact. */
  readVarint(): number {
    let value = 0;
    for (let index = 0; index < LONGEST_VARINT; index++) {
      const [byte = 0] = this.take(1);
      value += (byte % 0x80) * 2 ** (7 * index);
      if (byte < 0x80) return value;
    }
    throw malformed(`a number of more than ${LONGEST_VARINT} bytes`);
  }

  readTag(): { readonly number: number; readonly wireType: number } {
    const tag = this.readVarint();
    const number = Math.floor(tag / 2 ** WIRE_TYPE_BITS);
    if (number < 1 || number > LARGEST_FIELD_NUMBER) {
      throw malformed(`field number ${number}`);
    }
    return { number, wireType: tag % 2 ** WIRE_TYPE_BITS };
  }

  skip(wireType: number): void {
    if (wireType === WireType.Varint) this.readVarint();
    else if (wireType === WireType.Fixed64) this.take(8);
    else if (wireType === WireType.Fixed32) this.take(4);
    else throw malformed(`wire type ${wireType}`);
  }
}

function malformed(what: string): RangeError {
  return new RangeError(`Cannot decode protocol buffers: ${what}`);
}

function encodeField(number: number, payload: Bytes): Bytes[] {
  const tag = number * 2 ** WIRE_TYPE_BITS + WireType.Bytes;
  return [encodeVarint(tag), encodeVarint(payload.length), payload];
}

function encodeVarint(value: number): Bytes {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) {
    bytes.push(rest % 0x80 + 0x80);
  }
  return new Uint8Array([...bytes, rest]);
}

function encodeUtf8(value: string): Bytes {
  return new TextEncoder().encode(value);
}

function decodeUtf8(bytes: Bytes): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
      .decode(bytes);
  } catch {
    throw malformed("a string that is not UTF-8");
  }
}
