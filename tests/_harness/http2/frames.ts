/**
 * Frames of HTTP/2 as bytes.
 *
 * Source: RFC 9113 sections 4 and 6.
 *
 * @module
 */

import type { Bytes } from "../../../ffi/libc.ts";
import { concat, u16be, u32be, u8 } from "../../../ffi/netlink/struct.ts";
import { Http2Error } from "./http2_error.ts";

/** What a client says first. Source: RFC 9113 section 3.4. */
export const PREFACE: Bytes = new TextEncoder().encode(
  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
);

/** The longest payload of a frame, unless the other end takes more. Source: RFC 9113 section 6.5.2. */
export const MAX_PAYLOAD_LENGTH = 16_384;

/** Length of what is before a payload. Source: RFC 9113 section 4.1. */
export const HEAD_LENGTH = 9;

/** What frames there are. Source: RFC 9113 section 6. */
export const FrameType = {
  data: 0x0,
  headers: 0x1,
  priority: 0x2,
  rstStream: 0x3,
  settings: 0x4,
  pushPromise: 0x5,
  ping: 0x6,
  goAway: 0x7,
  windowUpdate: 0x8,
  continuation: 0x9,
} as const;

/** What is said of a frame. Each type knows its own. */
export const Flag = {
  endStream: 0x1,
  ack: 0x1,
  endHeaders: 0x4,
  padded: 0x8,
  priority: 0x20,
} as const;

/** What can be set. Source: RFC 9113 section 6.5.2. */
export const Setting = { initialWindowSize: 0x4 } as const;

/** A frame. */
export interface Frame {
  /** One of `FrameType`, or another one. */
  readonly type: number;
  /** Of `Flag`. */
  readonly flags: number;
  /** 0 for the whole connection. */
  readonly streamId: number;
  readonly payload: Bytes;
}

/** What is before a payload. */
export interface FrameHead extends Omit<Frame, "payload"> {
  /** Of the payload, in bytes. */
  readonly length: number;
}

/** Makes a frame; of the whole connection, without flags and empty if nothing else is said. */
export function makeFrame(
  type: keyof typeof FrameType,
  {
    streamId = 0,
    flags = 0,
    payload = new Uint8Array(),
  }: Partial<Omit<Frame, "type">>,
): Frame {
  return { type: FrameType[type], flags, streamId, payload };
}

/** Says whether a frame has a flag. */
export function hasFlag(
  { flags }: Pick<Frame, "flags">,
  flag: keyof typeof Flag,
): boolean {
  return (flags & Flag[flag]) !== 0;
}

/** Encodes a frame. */
export function encodeFrame({ type, flags, streamId, payload }: Frame): Bytes {
  return concat([
    u32be.encode(payload.length).subarray(1),
    u8.encode(type),
    u8.encode(flags),
    u32be.encode(streamId),
    payload,
  ]);
}

/** Decodes what is before a payload, `HEAD_LENGTH` bytes. */
export function decodeHead(head: Bytes): FrameHead {
  return {
    length: u32be.decode(head) >>> 8,
    type: u8.decode(head.subarray(3)),
    flags: u8.decode(head.subarray(4)),
    streamId: decodeStreamId(head.subarray(5)),
  };
}

/** Makes the frames of a block of headers: as many as it takes. */
export function headersFrames(
  streamId: number,
  block: Bytes,
  { endStream = false, maxLength = MAX_PAYLOAD_LENGTH } = {},
): Frame[] {
  const frames: Frame[] = [];
  for (let at = 0; at === 0 || at < block.length; at += maxLength) {
    const isLast = at + maxLength >= block.length;
    const flags = (isLast ? Flag.endHeaders : 0) |
      (endStream && at === 0 ? Flag.endStream : 0);
    const payload = block.subarray(at, at + maxLength);
    const type = at === 0 ? "headers" : "continuation";
    frames.push(makeFrame(type, { streamId, flags, payload }));
  }
  return frames;
}

/** Makes a SETTINGS frame. */
export function settingsFrame(
  settings: Readonly<Partial<Record<keyof typeof Setting, number>>> = {},
): Frame {
  const { initialWindowSize } = settings;
  const payload = initialWindowSize === undefined ? new Uint8Array() : concat([
    u16be.encode(Setting.initialWindowSize),
    u32be.encode(initialWindowSize),
  ]);
  return makeFrame("settings", { payload });
}

/** Decodes the payload of SETTINGS, by number. @throws {Http2Error} FRAME_SIZE_ERROR */
export function decodeSettings({ payload }: Frame): Map<number, number> {
  const size = u16be.size + u32be.size;
  if (payload.length % size !== 0) throw wrongLength("SETTINGS", payload);
  const settings = new Map<number, number>();
  for (let at = 0; at < payload.length; at += size) {
    const value = u32be.decode(payload.subarray(at + u16be.size));
    settings.set(u16be.decode(payload.subarray(at)), value);
  }
  return settings;
}

/** Makes a WINDOW_UPDATE frame. */
export function windowUpdateFrame(streamId: number, increment: number): Frame {
  const payload = u32be.encode(increment);
  return makeFrame("windowUpdate", { streamId, payload });
}

/** Makes a RST_STREAM frame. */
export function resetFrame(streamId: number, code: number): Frame {
  return makeFrame("rstStream", { streamId, payload: u32be.encode(code) });
}

/** Makes a GOAWAY frame. */
export function goAwayFrame(lastStreamId: number, code: number): Frame {
  const payload = concat([u32be.encode(lastStreamId), u32be.encode(code)]);
  return makeFrame("goAway", { payload });
}

/** Decodes the number that is all of RST_STREAM and WINDOW_UPDATE. @throws {Http2Error} FRAME_SIZE_ERROR */
export function decodeNumber({ payload }: Frame): number {
  if (payload.length !== u32be.size) throw wrongLength("a number", payload);
  return u32be.decode(payload);
}

/**
 * Returns what DATA or HEADERS are about, without padding and priority.
 *
 * @throws {Http2Error} PROTOCOL_ERROR if there is more padding than payload
 */
export function contentOf(frame: Frame): Bytes {
  const { payload } = frame;
  const isPadded = hasFlag(frame, "padded");
  const hasPriority = frame.type === FrameType.headers &&
    hasFlag(frame, "priority");
  const start = (isPadded ? 1 : 0) + (hasPriority ? 5 : 0);
  const end = payload.length - (isPadded ? payload[0] ?? 0 : 0);
  if (start > end) {
    const message = `${payload.length} bytes are less than their padding`;
    throw new Http2Error("protocolError", message);
  }
  return payload.subarray(start, end);
}

/** The first bit is reserved. */
function decodeStreamId(bytes: Bytes): number {
  return u32be.decode(bytes) % 2 ** 31;
}

function wrongLength(what: string, { length }: Bytes): Http2Error {
  const message = `Cannot decode ${length} bytes as ${what}`;
  return new Http2Error("frameSizeError", message);
}
