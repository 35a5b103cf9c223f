/**
 * Frames as they come from a connection.
 *
 * @module
 */

import type { Bytes } from "../../../ffi/libc.ts";
import { concat } from "../../../ffi/netlink/struct.ts";
import {
  contentOf,
  decodeHead,
  Flag,
  type Frame,
  FrameType,
  hasFlag,
  HEAD_LENGTH,
  MAX_PAYLOAD_LENGTH,
  PREFACE,
} from "./frames.ts";
import { Http2Error } from "./http2_error.ts";

const CHUNK_LENGTH = 65_536;

/** Reads frames. */
export class FrameReader {
  readonly #conn: Pick<Deno.Conn, "read">;
  #rest: Bytes = new Uint8Array();

  /** Makes one; the connection stays its owner's. */
  constructor(conn: Pick<Deno.Conn, "read">) {
    this.#conn = conn;
  }

  /** Reads what a client says first. @throws {Http2Error} PROTOCOL_ERROR if it is something else */
  async readPreface(): Promise<void> {
    const bytes = await this.#read(PREFACE.length);
    if (bytes?.every((byte, index) => byte === PREFACE[index])) return;
    throw protocolError("The client does not speak HTTP/2");
  }

  /**
   * Reads a frame. Headers are one with all that continues them, and without
   * padding.
   *
   * @returns Undefined if the connection ends
   * @throws {Http2Error} FRAME_SIZE_ERROR, PROTOCOL_ERROR
   */
  async read(): Promise<Frame | undefined> {
    const frame = await this.#readOne();
    if (frame?.type === FrameType.headers) return await this.#join(frame);
    if (frame?.type !== FrameType.continuation) return frame;
    throw protocolError("There is nothing to be continued");
  }

  /** Source: RFC 9113 section 6.10. Nothing may come in between. */
  async #join(first: Frame): Promise<Frame | undefined> {
    const parts = [contentOf(first)];
    for (let last = first; !hasFlag(last, "endHeaders");) {
      const next = await this.#readOne();
      if (next === undefined) return undefined;
      const { type, streamId, payload } = next;
      if (type !== FrameType.continuation || streamId !== first.streamId) {
        throw protocolError(`Headers of ${first.streamId} are not continued`);
      }
      parts.push(payload);
      last = next;
    }
    const flags = first.flags & Flag.endStream | Flag.endHeaders;
    return { ...first, flags, payload: concat(parts) };
  }

  async #readOne(): Promise<Frame | undefined> {
    const bytes = await this.#read(HEAD_LENGTH);
    if (bytes === undefined) return undefined;
    const { length, ...head } = decodeHead(bytes);
    if (length > MAX_PAYLOAD_LENGTH) {
      const message = `A frame of ${length} bytes is too long`;
      throw new Http2Error("frameSizeError", message);
    }
    const payload = await this.#read(length);
    return payload === undefined ? undefined : { ...head, payload };
  }

  async #read(length: number): Promise<Bytes | undefined> {
    while (this.#rest.length < length) {
      const chunk = new Uint8Array(CHUNK_LENGTH);
      const count = await this.#conn.read(chunk);
      if (count === null) return undefined;
      this.#rest = concat([this.#rest, chunk.subarray(0, count)]);
    }
    const bytes = this.#rest.subarray(0, length);
    this.#rest = this.#rest.subarray(length);
    return bytes;
  }
}

function protocolError(message: string): Http2Error {
  return new Http2Error("protocolError", message);
}
