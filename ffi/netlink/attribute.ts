/**
 * Netlink attributes, declared as tables.
 *
 * One row `name: [TYPE, codec]` is an attribute's documentation, encoder,
 * decoder, TypeScript type and name in errors. Rows have the order and names of the
 * kernel's own tables, so that reviewers can compare them side by side.
 *
 * @module
 */

import {
  type Bytes,
  type Codec,
  concat,
  decodePart,
  partOf,
  u8,
  viewOf,
} from "../../net/bytes.ts";
import { Ip } from "../../net/ip.ts";
import { Mac } from "../../net/mac.ts";
import { alignRecord, splitRecords } from "./records.ts";

/**
 * Source: include/uapi/linux/netlink.h `struct nlattr`. It is read and written
 * without the codec, because a message contains dozens of attributes.
 */
const attributeHeader = {
  size: 4,
  read(view: DataView, offset: number): { length: number; type: number } {
    const length = view.getUint16(offset, true);
    return { length, type: view.getUint16(offset + 2, true) & TYPE_MASK };
  },
};
/** The two upper bits of a type are flags. Source: `NLA_TYPE_MASK`. */
const TYPE_MASK = 0x3fff;
const NESTED_FLAG = 0x8000;

/** An attribute without a row, kept in order to send it back. */
export interface RawAttribute {
  /** The attribute's number, without flags. */
  readonly type: number;
  /** The attribute's payload. */
  readonly bytes: Bytes;
}

/** An attribute: its number in the kernel's enum and the codec of its payload. */
export type Row<T> = readonly [type: number, codec: Codec<T>];
/** Attributes by name. */
export type Rows = Record<string, Row<unknown>>;

/** Values of a set of attributes. All are optional; undefined means absent. */
export type AttributeValues<R extends Rows> = {
  [K in keyof R]?: (R[K] extends Row<infer T> ? T : never) | undefined;
};

/** Decoded attributes, including the attributes without a row. */
export type DecodedAttributes<R extends Rows> = AttributeValues<R> & {
  readonly unknown?: readonly RawAttribute[];
};

/** A declared set of attributes. */
export interface AttributeSet<R extends Rows>
  extends Codec<AttributeValues<R>> {
  /** Encodes attributes in the order of the rows, then the attributes without a row. */
  encode(values: DecodedAttributes<R>): Bytes;
  /** Decodes a run of attributes. The last of repeated attributes wins. */
  decode(bytes: Bytes): DecodedAttributes<R>;
  /** Decodes the attributes from `start` up to `end` of a view. */
  decodeAt?(
    view: DataView<ArrayBuffer>,
    start: number,
    end: number,
  ): DecodedAttributes<R>;
  /** Names the attribute that begins at an offset, such as `linkInfo.kind`. */
  locate(bytes: Bytes, offset: number): string | undefined;
}

/** Declares a set of attributes. */
export function attributeSet<R extends Rows>(rows: R): AttributeSet<R> {
  let entries: [string, Row<unknown>][] | undefined;
  let byType: Map<number, [name: string, codec: Codec<unknown>]> | undefined;
  const find = (type: number): [string, Codec<unknown>] | undefined => {
    byType ??= new Map(
      Object.entries(rows).map(([name, [type, codec]]) => [
        type & TYPE_MASK,
        [name, codec],
      ]),
    );
    return byType.get(type);
  };
  const decodeAt = (
    view: DataView<ArrayBuffer>,
    start: number,
    end: number,
  ): DecodedAttributes<R> => {
    const values: Record<string, unknown> = {};
    const unknown: RawAttribute[] = [];
    for (const attribute of split(view, start, end)) {
      const { header: { type }, payloadStart, end: payloadEnd } = attribute;
      const row = find(type);
      if (row === undefined) {
        unknown.push({ type, bytes: partOf(view, payloadStart, payloadEnd) });
      } else {
        const [name, codec] = row;
        values[name] = decodePart(codec, view, payloadStart, payloadEnd);
      }
    }
    if (unknown.length > 0) values["unknown"] = unknown;
    return values as DecodedAttributes<R>;
  };
  return {
    encode(values): Bytes {
      const parts: Bytes[] = [];
      entries ??= Object.entries(rows);
      for (const [name, [type, codec]] of entries) {
        const value = values[name];
        if (value !== undefined) {
          parts.push(encodeAttribute(type, codec.encode(value)));
        }
      }
      const { unknown = [] }: DecodedAttributes<R> = values;
      for (const { type, bytes } of unknown) {
        parts.push(encodeAttribute(type, bytes));
      }
      return concat(parts);
    },
    decode: (bytes) => decodeAt(viewOf(bytes), 0, bytes.length),
    decodeAt,
    locate(bytes, offset): string | undefined {
      for (const { type, bytes: payload, start } of splitAttributes(bytes)) {
        const end = start + attributeHeader.size + payload.length;
        if (offset < start || offset >= end) continue;
        const [name, codec] = find(type) ?? [`attribute ${type}`];
        const within = offset - start - attributeHeader.size;
        const inner = within < 0 ? undefined : codec?.locate?.(payload, within);
        return inner === undefined ? name : `${name}.${inner}`;
      }
      return undefined;
    },
  };
}

/** Encodes an attribute with its header and padding. */
export function encodeAttribute(type: number, payload: Bytes): Bytes {
  const length = attributeHeader.size + payload.length;
  if (length > 0xffff) {
    throw new RangeError(`Cannot encode an attribute of ${length} bytes`);
  }
  const bytes = new Uint8Array(alignRecord(length));
  const view = viewOf(bytes);
  view.setUint16(0, length, true);
  view.setUint16(2, type, true);
  bytes.set(payload, attributeHeader.size);
  return bytes;
}

/**
 * Splits a run of attributes.
 *
 * @throws {RangeError} If a length exceeds the run
 */
export function splitAttributes(
  bytes: Bytes,
): (RawAttribute & { start: number })[] {
  return split(viewOf(bytes), 0, bytes.length).map((
    { header: { type }, start, payloadStart, end },
  ) => ({ type, bytes: bytes.subarray(payloadStart, end), start }));
}

function split(
  view: DataView<ArrayBuffer>,
  start: number,
  end: number,
): ReturnType<typeof splitRecords<ReturnType<typeof attributeHeader.read>>> {
  return splitRecords(attributeHeader, view, [start, end], "an attribute");
}

const textEncoder = new TextEncoder();
const textDecoder = new TextDecoder();

/** NUL-terminated text. */
export const cstring: Codec<string> = {
  encode: (text) => textEncoder.encode(text + "\0"),
  decode(bytes): string {
    const end = bytes.indexOf(0);
    return textDecoder.decode(end < 0 ? bytes : bytes.subarray(0, end));
  },
};

/** Plain bytes. */
export const raw: Codec<Bytes> = {
  encode: (bytes) => bytes,
  decode: (bytes) => bytes.slice(),
};

/** An IPv4 or IPv6 address, depending on its length. */
export const ip: Codec<Ip> = {
  encode: (address) => address.toBytes(),
  decode: (bytes) => Ip.fromBytes(bytes),
};

/** A 48-bit link-layer address; undefined for other lengths, such as a tunnel's. */
export const mac: Codec<Mac | undefined> = {
  encode: (address) => new Uint8Array(address?.toBytes() ?? []),
  decode: (bytes) => bytes.length === 6 ? Mac.fromBytes(bytes) : undefined,
};

/** A boolean, as a byte of 1 or 0. */
export const bool: Codec<boolean> = {
  encode: (isOn) => u8.encode(+isOn),
  decode: (bytes) => u8.decode(bytes) !== 0,
};

/** An attribute without payload: either present or absent. */
export const flag: Codec<true> = {
  encode: () => new Uint8Array(0),
  decode: () => true,
};

/** An attribute whose payload is a run of attributes. */
export function nested<R extends Rows>(
  set: AttributeSet<R>,
): Codec<AttributeValues<R>> {
  return set;
}

/** A payload of attributes that all have the same type, in order. */
export function listOf<T>(type: number, element: Codec<T>): Codec<T[]> {
  return {
    encode: (values) =>
      concat(
        values.map((value) => encodeAttribute(type, element.encode(value))),
      ),
    decode: (bytes) =>
      [...splitAttributes(bytes)]
        .filter((attribute) => attribute.type === (type & TYPE_MASK))
        .map((attribute) => element.decode(attribute.bytes)),
  };
}

/** The type of a nested attribute for which the kernel requires the nested flag. */
export function markedNested(type: number): number {
  return type | NESTED_FLAG;
}

/** A codec that is looked up on use, for recursive attributes. */
export function lazily<T>(find: () => Codec<T>): Codec<T> {
  return {
    encode: (value) => find().encode(value),
    decode: (bytes) => find().decode(bytes),
    locate: (bytes, offset) => find().locate?.(bytes, offset),
  };
}
