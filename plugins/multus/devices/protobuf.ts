/**
 * Protocol buffers, declared as tables: a row `name: kind(number)` is the encoder,
 * the decoder and the TypeScript type of a field.
 *
 * Only the field types of the kubelet's responses are supported. Unknown fields are
 * skipped, so that newer kubelets can send additional fields.
 *
 * @module
 */

import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import type { Bytes } from "../../../net/bytes.ts";
import { describeError } from "../../../base/error.ts";

/** Encodes and decodes values of a type. */
export interface Codec<T> {
  encode(value: T): Bytes;
  /** @throws {RangeError} If the bytes end early or are malformed */
  decode(bytes: Bytes): T;
}

/** A field of a message, by its TypeScript type. */
export interface Field<T> {
  /** Its number in the message. */
  readonly number: number;
  /** Returns the value of an absent field. */
  start(): T;
  /** Adds an occurrence of the field; returns the new value. */
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

const utf8: Codec<string> = {
  encode: (value) => new TextEncoder().encode(value),
  decode: (bytes) =>
    new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes),
};

/** Declares a `string`; "" if absent. */
export function text(number: number): Field<string> {
  return {
    number,
    start: (): string => "",
    add: (_, payload): string => utf8.decode(payload),
    encode: (value): Bytes[] => value === "" ? [] : [utf8.encode(value)],
  };
}

/** Declares a `repeated string`. */
export function texts(number: number): Field<string[]> {
  return messages(number, utf8);
}

/** Declares a `repeated` message. */
export function messages<T>(number: number, codec: Codec<T>): Field<T[]> {
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

/** The bytes are malformed, here or in a nested message. */
class DecodingError extends RangeError {
  constructor(cause: unknown) {
    super(`Cannot decode protocol buffers: ${describeError(cause)}`);
  }
}

/** Declares a message. */
export function message<F extends Fields>(
  fields: F,
): Codec<MessageValue<F>> {
  const rows = Object.entries(fields);
  return {
    encode(value): Bytes {
      const writer = new BinaryWriter();
      for (const [name, { number, encode }] of rows) {
        for (const payload of encode(value[name])) {
          writer.tag(number, WireType.LengthDelimited).bytes(payload);
        }
      }
      return writer.finish();
    },
    decode(bytes): MessageValue<F> {
      const values = new Map(rows.map(([name, row]) => [name, row.start()]));
      try {
        for (const { number, payload } of readFields(bytes)) {
          const row = rows.find(([, field]) => field.number === number);
          if (row === undefined) continue;
          const [name, field] = row;
          values.set(name, field.add(values.get(name), payload));
        }
      } catch (error) {
        throw error instanceof DecodingError ? error : new DecodingError(error);
      }
      return Object.fromEntries(values) as MessageValue<F>;
    },
  };
}

/** Reads the length-delimited fields; skips other fields and whole groups. */
function* readFields(
  bytes: Bytes,
): Generator<{ readonly number: number; readonly payload: Bytes }> {
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag();
    if (wireType === WireType.LengthDelimited) {
      yield { number, payload: reader.bytes() as Bytes };
    } else reader.skip(wireType, number);
  }
}
