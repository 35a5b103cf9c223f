/**
 * What tests of HTTP/2 begin with: a server, and a client that says frame by
 * frame what a test wants.
 *
 * @module
 */

import { assertEquals, assertExists } from "@std/assert";
import type { Bytes } from "../../../ffi/libc.ts";
import { concat } from "../../../ffi/netlink/struct.ts";
import { PluginFolder } from "../plugin_folder.ts";
import { say, TalkServer } from "../talk_server.ts";
import { Http2Connection } from "./connection.ts";
import { FrameReader } from "./frame_reader.ts";
import {
  encodeFrame,
  type Frame,
  FrameType,
  headersFrames,
  makeFrame,
  PREFACE,
  settingsFrame,
} from "./frames.ts";
import { encodeHeaders } from "./hpack.ts";
import type { HeaderRecord, Http2Stream } from "./stream.ts";

/** The only one whose answer is not shown to tests. */
const PING = makeFrame("ping", { payload: new Uint8Array(8) });

/** A server, and a client that says frame by frame what a test wants. */
export class FrameScene implements AsyncDisposable {
  /** The streams that the server knows of. */
  readonly streams: readonly Http2Stream[];
  readonly #conn: Deno.UnixConn;
  readonly #reader: FrameReader;
  readonly #stack: AsyncDisposableStack;

  private constructor(
    conn: Deno.UnixConn,
    streams: Http2Stream[],
    stack: AsyncDisposableStack,
  ) {
    this.#conn = conn;
    this.#reader = new FrameReader(conn);
    this.#stack = stack;
    this.streams = streams;
  }

  /** Starts the server, and connects to it. */
  static async start(): Promise<FrameScene> {
    await using stack = new AsyncDisposableStack();
    const path = `${stack.use(new PluginFolder()).path}/s.sock`;
    const streams: Http2Stream[] = [];
    stack.use(
      new TalkServer(
        Deno.listen({ transport: "unix", path }),
        (conn) =>
          new Http2Connection(conn, (stream) => streams.push(stream)).serve(),
      ),
    );
    const conn = stack.use(await Deno.connect({ transport: "unix", path }));
    return new FrameScene(conn, streams, stack.move());
  }

  /** Starts the server, greets it, and leaves its greetings alone. */
  static async greet(...more: Frame[]): Promise<FrameScene> {
    const scene = await FrameScene.start();
    await scene.say(PREFACE, settingsFrame(), ...more);
    await scene.take();
    return scene;
  }

  /** Sends bytes and frames, all at once. */
  async say(...what: (Bytes | Frame)[]): Promise<void> {
    const parts = what.map((part) =>
      part instanceof Uint8Array ? part : encodeFrame(part)
    );
    await say(this.#conn, concat(parts));
  }

  /** Takes what the server says until it has nothing more to say. */
  async take(): Promise<Frame[]> {
    // The second answer comes when all that the first PING met is dealt with.
    return [...await this.#takeUntilPing(), ...await this.#takeUntilPing()];
  }

  async #takeUntilPing(): Promise<Frame[]> {
    await this.say(PING);
    const frames: Frame[] = [];
    for (;;) {
      const frame = await this.#reader.read();
      if (frame === undefined || isPing(frame)) return frames;
      frames.push(frame);
    }
  }

  /** Hangs up, and takes what the server says until it does so too. */
  async takeToEnd(): Promise<Frame[]> {
    await this.#conn.closeWrite();
    const frames: Frame[] = [];
    for (;;) {
      const frame = await this.#reader.read();
      if (frame === undefined) return frames;
      frames.push(frame);
    }
  }

  /** Takes what comes of bodies, as lengths. */
  async takeLengths(): Promise<number[]> {
    return (await this.take())
      .filter(({ type }) => type === FrameType.data)
      .map(({ payload }) => payload.length);
  }

  /** Begins a stream, and returns the server's end of it. */
  async begin(streamId = 1, { endStream = true } = {}): Promise<Http2Stream> {
    await this.say(...request(streamId, { endStream }));
    await this.take();
    const stream = this.streams.at(-1);
    assertExists(stream);
    assertEquals(stream.id, streamId);
    return stream;
  }

  /** Closes the connection, and stops the server. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

/** Makes the frames of a request to `/x`. */
export function request(
  streamId: number,
  { endStream = true, headers = {} }: {
    readonly endStream?: boolean;
    readonly headers?: HeaderRecord;
  } = {},
): Frame[] {
  const all = { ":method": "POST", ":path": "/x", ...headers };
  const block = encodeHeaders(Object.entries(all));
  return headersFrames(streamId, block, { endStream });
}

function isPing({ type, payload }: Frame): boolean {
  return type === FrameType.ping && payload.every((byte) => byte === 0);
}
