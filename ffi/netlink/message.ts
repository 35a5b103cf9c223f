/**
 * Netlink messages: the common header, message types, and the splitting of replies.
 *
 * @module
 */

import {
  type Bytes,
  type Codec,
  concat,
  decodePart,
  type Fields,
  type Struct,
  struct,
  type StructValue,
  u16,
  u32,
  viewOf,
} from "../../net/bytes.ts";
import type {
  AttributeSet,
  AttributeValues,
  DecodedAttributes,
  Rows,
} from "./attribute.ts";
import { alignRecord, splitRecords } from "./records.ts";

/** Source: include/uapi/linux/netlink.h `struct nlmsghdr`. */
export const messageHeader = struct({
  length: u32,
  type: u16,
  flags: u16,
  sequence: u32,
  portId: u32,
});

/** Source: include/uapi/linux/netlink.h `NLM_F_*`. */
export const Flag = {
  Request: 0x1,
  Multi: 0x2,
  Ack: 0x4,
  Echo: 0x8,
  DumpInterrupted: 0x10,
  /** On an error reply: only the request's header is echoed. */
  Capped: 0x100,
  /** On an error reply: attributes that explain it follow. */
  AckAttributes: 0x200,
  Dump: 0x300,
  Replace: 0x100,
  Exclusive: 0x200,
  Create: 0x400,
  Append: 0x800,
} as const;

/** Source: include/uapi/linux/netlink.h `NLMSG_*`. */
export const ControlType = { Error: 2, Done: 3 } as const;

/** A received message, undecoded. */
export interface RawMessage {
  /** The kernel's number of its type. */
  readonly type: number;
  /** Values of {@linkcode Flag}. */
  readonly flags: number;
  /** The sequence number of the request that it answers; 0 for a notification. */
  readonly sequence: number;
  /** The bytes after the common header. */
  readonly body: Bytes;
}

/** The parts of a message's body. */
export interface Body<F extends Fields, R extends Rows> {
  /** Omitted fields are zero. */
  readonly header: Partial<StructValue<F>>;
  /** Attributes by name; undefined attributes are omitted. */
  readonly attributes?: AttributeValues<R>;
}

/** Names the object of a message in errors, such as `"eth0"` or `10.1.0.0/16`. */
export type Describe<F extends Fields, R extends Rows> = (
  header: Partial<StructValue<F>>,
  attributes: AttributeValues<R>,
) => string | undefined;

/** A kind of message: its number, its fixed header and its attributes. */
export interface MessageType<F extends Fields, R extends Rows>
  extends Codec<Body<F, R>> {
  /** The kernel's name, used in errors. */
  readonly name: string;
  /** The kernel's number. */
  readonly type: number;
  /**
   * The address families that have this layout; all if undefined. Further families,
   * such as CAN and Phonet, also answer a request for every family.
   */
  readonly families?: readonly number[];
  /** Names the object of a body in errors. */
  readonly describe?: ((body: Body<F, R>) => string | undefined) | undefined;
  /** Decodes a body of this kind. */
  decode(body: Bytes): {
    header: StructValue<F>;
    attributes: DecodedAttributes<R>;
  };
}

/**
 * Declares a kind of message.
 *
 * @param describe Names the object of a message in errors
 */
export function message<F extends Fields, R extends Rows>(
  name: string,
  type: number,
  header: Struct<F>,
  attributes: AttributeSet<R>,
  describe?: Describe<F, R>,
): MessageType<F, R> {
  return {
    name,
    type,
    describe: describe &&
      ((body) => describe(body.header, body.attributes ?? {})),
    ...headerWithAttributes(header, attributes),
  };
}

/** A codec for a fixed header followed by attributes. */
export function headerWithAttributes<F extends Fields, R extends Rows>(
  header: Struct<F>,
  attributes: AttributeSet<R>,
): Omit<MessageType<F, R>, "name" | "type" | "describe"> {
  const attributesStart = alignRecord(header.size);
  return {
    encode: (body) =>
      concat([
        header.encode(body.header),
        new Uint8Array(attributesStart - header.size),
        attributes.encode(body.attributes ?? {}),
      ]),
    decode: (bytes) => ({
      header: header.decode(bytes),
      attributes: decodePart(
        attributes,
        viewOf(bytes),
        attributesStart,
        bytes.length,
      ),
    }),
    locate: (bytes, offset) =>
      attributes.locate(
        bytes.subarray(attributesStart),
        offset - attributesStart,
      ),
  };
}

/** Encodes a whole message. */
export function encodeMessage(
  type: number,
  flags: number,
  sequence: number,
  body: Bytes,
): Bytes {
  const length = messageHeader.size + body.length;
  const bytes = new Uint8Array(alignRecord(length));
  messageHeader.write(viewOf(bytes), 0, { length, type, flags, sequence });
  bytes.set(body, messageHeader.size);
  return bytes;
}

/**
 * Splits the bytes that a recv(2) returned into messages.
 *
 * @throws {RangeError} If a length exceeds the bytes
 */
export function splitMessages(bytes: Bytes): RawMessage[] {
  const run = [0, bytes.length] as const;
  return splitRecords(messageHeader, viewOf(bytes), run, "a message").map((
    { header: { type, flags, sequence }, payloadStart, end },
  ) => ({ type, flags, sequence, body: bytes.subarray(payloadStart, end) }));
}
