/**
 * Codecs for bytes: integers and C structs.
 *
 * A struct is declared as a list of named fields. Alignment, size and byte
 * order follow from the field types, so no offset is written by hand.
 *
 * @module
 */

/** Bytes that FFI can read or write. */
export type Bytes = Uint8Array<ArrayBuffer>;

/** Converts values of one type to bytes and back. */
export interface Codec<T> {
  /** Encodes one value. */
  encode(value: T): Bytes;
  /** Decodes exactly these bytes. */
  decode(bytes: Bytes): T;
  /** Decodes the bytes from `start` up to `end` of a view, like {@linkcode decode}. */
  decodeAt?(view: DataView<ArrayBuffer>, start: number, end: number): T;
  /** Names the attribute that begins `offset` bytes into an encoded value, if it has any. */
  locate?(bytes: Bytes, offset: number): string | undefined;
}

/** A codec of values that always take the same number of bytes. */
export interface FixedCodec<T> extends Codec<T> {
  /** Length in bytes. */
  readonly size: number;
  /** The boundary on which C places the value, in bytes. */
  readonly alignment: number;
  /** The value of an omitted field. */
  readonly zero: T;
  /** Reads the value at an offset. */
  read(view: DataView, offset: number): T;
  /** Writes the value at an offset. */
  write(view: DataView, offset: number, value: T): void;
}

/**
 * The kernel uses the machine's byte order, and all supported machines are
 * little-endian.
 */
const HOST_ORDER = true;
const BIG_ENDIAN = false;

/** Views bytes as numbers. */
export function viewOf<B extends ArrayBufferLike>(
  bytes: Uint8Array<B>,
): DataView<B> {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Returns the bytes from `start` up to `end` of a view, which share its memory. */
export function partOf(
  { buffer, byteOffset }: DataView<ArrayBuffer>,
  start: number,
  end: number,
): Bytes {
  return new Uint8Array(buffer, byteOffset + start, end - start);
}

/** Decodes the bytes from `start` up to `end` of a view. */
export function decodePart<T>(
  codec: Codec<T>,
  view: DataView<ArrayBuffer>,
  start: number,
  end: number,
): T {
  return codec.decodeAt === undefined
    ? codec.decode(partOf(view, start, end))
    : codec.decodeAt(view, start, end);
}

/** Builds a codec from functions that read and write at an offset. */
function fixed<T>(
  layout: Omit<FixedCodec<T>, "encode" | "decode" | "decodeAt">,
): FixedCodec<T> {
  const decodeAt = (view: DataView, start: number, end: number): T => {
    // The kernel appends fields to structs over time, so extra bytes are allowed.
    if (end - start < layout.size) {
      throw new RangeError(
        `Cannot decode ${end - start} bytes as a value of ${layout.size}`,
      );
    }
    return layout.read(view, start);
  };
  return {
    ...layout,
    encode(value: T): Bytes {
      const bytes = new Uint8Array(layout.size);
      layout.write(viewOf(bytes), 0, value);
      return bytes;
    },
    decode: (bytes) => decodeAt(viewOf(bytes), 0, bytes.length),
    decodeAt,
  };
}

function integer(
  size: number,
  range: Range,
  read: (view: DataView, offset: number) => number,
  write: (view: DataView, offset: number, value: number) => void,
): FixedCodec<number> {
  return fixed({
    size,
    alignment: size,
    zero: 0,
    read,
    write(view, offset, value): void {
      // DataView would truncate the value silently.
      if (value < range.min || value > range.max || !Number.isInteger(value)) {
        throw new RangeError(
          `Cannot encode ${value}: expected ${range.min} to ${range.max}`,
        );
      }
      write(view, offset, value);
    },
  });
}

/** A range of integers, both ends included. */
interface Range {
  readonly min: number;
  readonly max: number;
}

const UNSIGNED_8: Range = { min: 0, max: 0xff };
const UNSIGNED_16: Range = { min: 0, max: 0xffff };
const UNSIGNED_32: Range = { min: 0, max: 0xffff_ffff };
const SIGNED_32: Range = { min: -0x8000_0000, max: 0x7fff_ffff };

/** Unsigned 8-bit integer. */
export const u8: FixedCodec<number> = integer(
  1,
  UNSIGNED_8,
  (view, offset) => view.getUint8(offset),
  (view, offset, value) => view.setUint8(offset, value),
);

/** Unsigned 16-bit integer in the machine's byte order. */
export const u16: FixedCodec<number> = integer(
  2,
  UNSIGNED_16,
  (view, offset) => view.getUint16(offset, HOST_ORDER),
  (view, offset, value) => view.setUint16(offset, value, HOST_ORDER),
);

/** Unsigned 16-bit integer in network byte order: ports and protocols. */
export const u16be: FixedCodec<number> = integer(
  2,
  UNSIGNED_16,
  (view, offset) => view.getUint16(offset, BIG_ENDIAN),
  (view, offset, value) => view.setUint16(offset, value, BIG_ENDIAN),
);

/** Unsigned 32-bit integer in the machine's byte order. */
export const u32: FixedCodec<number> = integer(
  4,
  UNSIGNED_32,
  (view, offset) => view.getUint32(offset, HOST_ORDER),
  (view, offset, value) => view.setUint32(offset, value, HOST_ORDER),
);

/** Unsigned 32-bit integer in network byte order, as all numbers of nf_tables. */
export const u32be: FixedCodec<number> = integer(
  4,
  UNSIGNED_32,
  (view, offset) => view.getUint32(offset, BIG_ENDIAN),
  (view, offset, value) => view.setUint32(offset, value, BIG_ENDIAN),
);

/** Signed 32-bit integer in network byte order. */
export const i32be: FixedCodec<number> = integer(
  4,
  SIGNED_32,
  (view, offset) => view.getInt32(offset, BIG_ENDIAN),
  (view, offset, value) => view.setInt32(offset, value, BIG_ENDIAN),
);

/** Signed 32-bit integer in the machine's byte order. */
export const i32: FixedCodec<number> = integer(
  4,
  SIGNED_32,
  (view, offset) => view.getInt32(offset, HOST_ORDER),
  (view, offset, value) => view.setInt32(offset, value, HOST_ORDER),
);

/** Unsigned 64-bit integer in the machine's byte order. */
export const u64: FixedCodec<bigint> = fixed({
  size: 8,
  alignment: 8,
  zero: 0n,
  read: (view, offset) => view.getBigUint64(offset, HOST_ORDER),
  write: (view, offset, value) => view.setBigUint64(offset, value, HOST_ORDER),
});

/** Unsigned 64-bit integer in network byte order. */
export const u64be: FixedCodec<bigint> = fixed({
  size: 8,
  alignment: 8,
  zero: 0n,
  read: (view, offset) => view.getBigUint64(offset, BIG_ENDIAN),
  write: (view, offset, value) => view.setBigUint64(offset, value, BIG_ENDIAN),
});

/** Named fields of a struct, in memory order. */
export type Fields = Record<string, FixedCodec<unknown>>;

/** The value of a struct with these fields. */
export type StructValue<F extends Fields> = {
  [K in keyof F]: F[K] extends FixedCodec<infer T> ? T : never;
};

/** A struct. Fields that are omitted when encoding are zero. */
export interface Struct<F extends Fields>
  extends FixedCodec<Partial<StructValue<F>>> {
  /** Decodes exactly these bytes, and returns all fields. */
  decode(bytes: Bytes): StructValue<F>;
  /** Reads the struct at an offset, and returns all fields. */
  read(view: DataView, offset: number): StructValue<F>;
}

/** Declares a C struct with natural alignment. */
export function struct<F extends Fields>(fields: F): Struct<F> {
  const layout: {
    readonly name: string;
    readonly codec: FixedCodec<unknown>;
    readonly offset: number;
  }[] = [];
  let end = 0, alignment = 1;
  for (const [name, codec] of Object.entries(fields)) {
    const offset = alignUp(end, codec.alignment);
    layout.push({ name, codec, offset });
    end = offset + codec.size;
    alignment = Math.max(alignment, codec.alignment);
  }
  return fixed<Partial<StructValue<F>>>({
    size: alignUp(end, alignment),
    alignment,
    zero: {},
    read(view, start): StructValue<F> {
      const value: Record<string, unknown> = {};
      for (const { name, codec, offset } of layout) {
        value[name] = codec.read(view, start + offset);
      }
      return value as StructValue<F>;
    },
    write(view, start, value): void {
      for (const { name, codec, offset } of layout) {
        codec.write(view, start + offset, value[name] ?? codec.zero);
      }
    },
  }) as Struct<F>;
}

/** Rounds a length up to a multiple of a boundary. */
export function alignUp(length: number, boundary: number): number {
  return Math.ceil(length / boundary) * boundary;
}

/** Joins byte strings. */
export function concat(parts: readonly Bytes[]): Bytes {
  const whole = new Uint8Array(
    parts.reduce((length, part) => length + part.length, 0),
  );
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.length;
  }
  return whole;
}
