/**
 * One call of HTTP/2, seen from either end.
 *
 * @module
 */

import type { Bytes } from "../../../ffi/libc.ts";
import { concat } from "../../../ffi/netlink/struct.ts";
import {
  Flag,
  type Frame,
  goAwayFrame,
  headersFrames,
  makeFrame,
  resetFrame,
} from "./frames.ts";
import { encodeHeaders } from "./hpack.ts";
import { ErrorCode } from "./http2_error.ts";
import type { HeaderField } from "./static_table.ts";

/** Headers by name in lower case, the pseudo-headers with their colons. */
export type HeaderRecord = Readonly<Record<string, string>>;

/** What a stream needs of its connection. */
export interface StreamOutput {
  /** Sends frames, with nothing in between. Does nothing once the connection has ended. */
  send(...frames: Frame[]): Promise<void>;
  /** Waits until something of a body may be sent. @returns How many bytes; 0 if none any more */
  takeRoom(streamId: number, wanted: number): Promise<number>;
  /** Closes the connection, without a word. */
  cut(): void;
}

/** A stream: what has come on it, and what is to be sent on it. */
export class Http2Stream {
  readonly id: number;
  readonly #output: StreamOutput;
  readonly #chunks: Bytes[] = [];
  readonly #ended = Promise.withResolvers<void>();
  #headers: HeaderRecord | undefined;
  #trailers: HeaderRecord | undefined;
  #failure: Error | undefined;
  #resetBy: number | undefined;
  #hasEnded = false;
  #isClosed = false;

  /** Makes one on which nothing has come. */
  constructor(id: number, output: StreamOutput) {
    this.id = id;
    this.#output = output;
  }

  /** Resolves when nothing more comes; never rejects. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** Whether nothing more comes. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Whether nothing more goes either way, as one end wants it so. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** The headers that have come. */
  get headers(): HeaderRecord | undefined {
    return this.#headers;
  }

  /** What has come after the body. */
  get trailers(): HeaderRecord | undefined {
    return this.#trailers;
  }

  /** What has come of the body. */
  get body(): Bytes {
    return concat(this.#chunks);
  }

  /** Why it ended before its time. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** The code with which the other end has reset it. */
  get resetBy(): number | undefined {
    return this.#resetBy;
  }

  /** Sends headers: the first ones, or trailers. */
  async sendHeaders(
    headers: HeaderRecord,
    options: { readonly endStream?: boolean } = {},
  ): Promise<void> {
    if (this.#isClosed) return;
    const block = encodeHeaders(Object.entries(headers));
    await this.#output.send(...headersFrames(this.id, block, options));
  }

  /** Sends a part of the body, as fast as the other end takes it. Stops if the stream is closed. */
  async sendData(bytes: Bytes): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      const room = await this.#output.takeRoom(this.id, bytes.length - at);
      if (room === 0 || this.#isClosed) return;
      const payload = bytes.subarray(at, at + room);
      await this.#output.send(
        makeFrame("data", { streamId: this.id, payload }),
      );
      at += room;
    }
  }

  /** Ends what is sent, without trailers. */
  async sendEnd(): Promise<void> {
    if (this.#isClosed) return;
    const flags = Flag.endStream;
    await this.#output.send(makeFrame("data", { streamId: this.id, flags }));
  }

  /** Closes it both ways. */
  async reset(code: number): Promise<void> {
    if (this.#isClosed) return;
    this.takeFailure(new Error("The stream was reset from here"));
    await this.#output.send(resetFrame(this.id, code));
  }

  /**
   * Closes the connection that it is on, as Node's servers do it: amid a body
   * that just ends then, as no reason is given.
   */
  async endConnection(): Promise<void> {
    const { noError } = ErrorCode;
    await this.#output.send(
      goAwayFrame(this.id, noError),
      resetFrame(this.id, noError),
    );
    this.#output.cut();
  }

  /** Takes headers, or trailers, that have come. */
  takeHeaders(fields: readonly HeaderField[]): void {
    const headers: Record<string, string> = {};
    for (const [name, value] of fields) {
      const before = headers[name];
      headers[name] = before === undefined ? value : `${before}, ${value}`;
    }
    if (this.#headers === undefined) this.#headers = headers;
    else this.#trailers = headers;
  }

  /** Takes a part of the body that has come. */
  takeData(bytes: Bytes): void {
    this.#chunks.push(bytes);
  }

  /** Takes note that nothing more comes. */
  takeEnd(): void {
    this.#hasEnded = true;
    this.#ended.resolve();
  }

  /** Takes note that the other end has reset it. */
  takeReset(code: number): void {
    this.#resetBy = code;
    this.takeFailure(new Error(`The stream was reset with code ${code}`));
  }

  /** Takes note that it is closed, before its time if something was to come. */
  takeFailure(failure: Error): void {
    this.#isClosed = true;
    if (this.#hasEnded) return;
    this.#failure = failure;
    this.takeEnd();
  }
}
