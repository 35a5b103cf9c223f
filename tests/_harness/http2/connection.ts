/**
 * A connection of HTTP/2, from either end. It is for gRPC in tests and knows
 * what that needs: no pushes, no priorities, and no bounds to what may come.
 *
 * Source: RFC 9113.
 *
 * @module
 */

import type { Bytes } from "../../../ffi/libc.ts";
import { concat } from "../../../ffi/netlink/struct.ts";
import { say } from "../talk_server.ts";
import { FrameReader } from "./frame_reader.ts";
import {
  contentOf,
  decodeNumber,
  decodeSettings,
  encodeFrame,
  Flag,
  type Frame,
  FrameType,
  goAwayFrame,
  hasFlag,
  makeFrame,
  PREFACE,
  Setting,
  settingsFrame,
  windowUpdateFrame,
} from "./frames.ts";
import { HpackDecoder } from "./hpack.ts";
import { Http2Error } from "./http2_error.ts";
import { SendWindows } from "./send_windows.ts";
import { type HeaderRecord, Http2Stream, type StreamOutput } from "./stream.ts";

/** Called with a stream once its headers have come. */
export type OnStream = (stream: Http2Stream) => void;

/** A connection. It closes the socket in the end, whoever opened that. */
export class Http2Connection implements StreamOutput {
  readonly #conn: Deno.Conn;
  readonly #onStream: OnStream | undefined;
  readonly #reader: FrameReader;
  readonly #decoder = new HpackDecoder();
  readonly #windows = new SendWindows();
  readonly #streams = new Map<number, Http2Stream>();
  #lastStreamId = 0;
  #sending: Promise<void> = Promise.resolve();
  #isOpen = true;

  /** Makes one on which nothing is said yet. */
  constructor(conn: Deno.Conn, onStream?: OnStream) {
    this.#conn = conn;
    this.#reader = new FrameReader(conn);
    this.#onStream = onStream;
  }

  /** Serves a client until the connection ends. */
  async serve(): Promise<void> {
    void this.send(settingsFrame());
    await this.#run(() => this.#reader.readPreface());
  }

  /** Listens to a server until the connection ends. */
  async listen(): Promise<void> {
    await this.#run(() => Promise.resolve());
  }

  /** Greets a server; before anything else is said. */
  greet(): void {
    void this.#write(concat([PREFACE, encodeFrame(settingsFrame())]));
  }

  /** Begins a stream, as a client. */
  request(headers: HeaderRecord): Http2Stream {
    this.#lastStreamId += this.#lastStreamId === 0 ? 1 : 2;
    const stream = this.#open(this.#lastStreamId);
    if (!this.#isOpen) stream.takeFailure(new Error("There is no connection"));
    void stream.sendHeaders(headers);
    return stream;
  }

  /** Sends frames, with nothing in between. */
  send(...frames: Frame[]): Promise<void> {
    return this.#write(concat(frames.map(encodeFrame)));
  }

  /** Waits until something of a body may be sent. @returns How many bytes; 0 if none any more */
  takeRoom(streamId: number, wanted: number): Promise<number> {
    return this.#windows.take(streamId, wanted);
  }

  /** Closes it, without a word. */
  cut(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#windows.closeAll();
    this.#conn[Symbol.dispose]();
  }

  #write(bytes: Bytes): Promise<void> {
    this.#sending = this.#sending
      .then(() => this.#isOpen ? say(this.#conn, bytes) : undefined)
      .catch(() => this.cut());
    return this.#sending;
  }

  async #run(begin: () => Promise<void>): Promise<void> {
    let failure = new Error("The connection has ended");
    try {
      await begin();
      await this.#takeAll();
    } catch (error) {
      if (error instanceof Error) failure = error;
      if (error instanceof Http2Error) {
        await this.send(goAwayFrame(this.#lastStreamId, error.code));
      }
    } finally {
      this.cut();
      for (const stream of this.#streams.values()) stream.takeFailure(failure);
      await this.#sending;
    }
  }

  /** Source: RFC 9113 section 3.4. SETTINGS come first, from both ends. */
  async #takeAll(): Promise<void> {
    let frame = await this.#reader.read();
    if (frame !== undefined && frame.type !== FrameType.settings) {
      throw protocolError(`A frame of type ${frame.type} comes first`);
    }
    for (; frame !== undefined; frame = await this.#reader.read()) {
      this.#take(frame);
    }
  }

  /** What is of another type needs no answer. */
  #take(frame: Frame): void {
    switch (frame.type) {
      case FrameType.data:
        return this.#takeData(frame);
      case FrameType.headers:
        return this.#takeHeaders(frame);
      case FrameType.rstStream:
        return this.#takeReset(frame);
      case FrameType.settings:
        return this.#takeSettings(frame);
      case FrameType.ping:
        return this.#takePing(frame);
      case FrameType.windowUpdate:
        return this.#takeWindowUpdate(frame);
      case FrameType.pushPromise:
        throw protocolError("Nobody wants a push");
    }
  }

  #takeData(frame: Frame): void {
    const { streamId, payload } = frame;
    const stream = this.#findReceiving(streamId);
    stream.takeData(contentOf(frame));
    const isLast = hasFlag(frame, "endStream");
    this.#makeRoom(isLast ? [0] : [0, streamId], payload.length);
    if (isLast) stream.takeEnd();
  }

  /** What has come makes room at once for as much, padding too. */
  #makeRoom(streamIds: readonly number[], length: number): void {
    if (length === 0) return;
    void this.send(...streamIds.map((id) => windowUpdateFrame(id, length)));
  }

  #takeHeaders(frame: Frame): void {
    const { streamId, payload } = frame;
    const fields = this.#decoder.decode(payload);
    const isNew = !this.#streams.has(streamId);
    const stream = isNew
      ? this.#accept(streamId)
      : this.#findReceiving(streamId);
    stream.takeHeaders(fields);
    if (hasFlag(frame, "endStream")) stream.takeEnd();
    if (isNew) this.#onStream?.(stream);
  }

  #takeReset(frame: Frame): void {
    this.#find(frame.streamId).takeReset(decodeNumber(frame));
    this.#windows.close(frame.streamId);
  }

  #takeSettings(frame: Frame): void {
    if (hasFlag(frame, "ack")) return;
    const size = decodeSettings(frame).get(Setting.initialWindowSize);
    if (size !== undefined) this.#windows.setInitialSize(size);
    void this.send(makeFrame("settings", { flags: Flag.ack }));
  }

  #takePing(frame: Frame): void {
    if (hasFlag(frame, "ack")) return;
    const { payload } = frame;
    void this.send(makeFrame("ping", { flags: Flag.ack, payload }));
  }

  #takeWindowUpdate(frame: Frame): void {
    const { streamId } = frame;
    if (streamId !== 0) this.#find(streamId);
    this.#windows.add(streamId, decodeNumber(frame));
  }

  /** Source: RFC 9113 section 5.1.1. */
  #accept(streamId: number): Http2Stream {
    const isClients = streamId % 2 === 1 && streamId > this.#lastStreamId;
    if (this.#onStream === undefined || !isClients) {
      throw protocolError(`Stream ${streamId} cannot begin`);
    }
    this.#lastStreamId = streamId;
    return this.#open(streamId);
  }

  #open(streamId: number): Http2Stream {
    const stream = new Http2Stream(streamId, this);
    this.#streams.set(streamId, stream);
    this.#windows.open(streamId);
    return stream;
  }

  #find(streamId: number): Http2Stream {
    const stream = this.#streams.get(streamId);
    if (stream === undefined) {
      throw protocolError(`Stream ${streamId} has not begun`);
    }
    return stream;
  }

  /** Finds a stream on which something may come: after a reset too, as that may cross it. */
  #findReceiving(streamId: number): Http2Stream {
    const stream = this.#find(streamId);
    if (stream.isClosed || !stream.hasEnded) return stream;
    throw new Http2Error("streamClosed", `Stream ${streamId} has ended`);
  }
}

function protocolError(message: string): Http2Error {
  return new Http2Error("protocolError", message);
}
