import { assertEquals } from "@std/assert";
import type { Bytes } from "../../../ffi/libc.ts";
import { FrameScene, request } from "./frame_scene.ts";
import {
  Flag,
  type Frame,
  FrameType,
  headersFrames,
  makeFrame,
  PREFACE,
  settingsFrame,
  windowUpdateFrame,
} from "./frames.ts";
import { encodeHeaders } from "./hpack.ts";
import { ErrorCode } from "./http2_error.ts";
import type { HeaderRecord } from "./stream.ts";

const PING = makeFrame("ping", { payload: new Uint8Array(8) });
const SETTINGS_ACK = makeFrame("settings", { flags: Flag.ack });

Deno.test("Http2Connection.serve() greets, and answers what wants an answer", async () => {
  await using scene = await FrameScene.start();
  const payload = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8);
  const ping = makeFrame("ping", { payload });
  const unknown = { ...ping, type: 0x42 };
  await scene.say(PREFACE, settingsFrame({ initialWindowSize: 1 }), unknown);
  assertEquals(await scene.take(), [settingsFrame(), SETTINGS_ACK]);
  await scene.say(SETTINGS_ACK, ping, { ...ping, flags: Flag.ack });
  assertEquals(await scene.take(), [{ ...ping, flags: Flag.ack }]);
});

Deno.test("Http2Connection.serve() reads a request", async (t) => {
  const rows: [frameCount: number, headers: HeaderRecord][] = [
    [1, { te: "trailers" }],
    [3, { long: "x".repeat(40_000) }],
  ];
  for (const [frameCount, headers] of rows) {
    await t.step(`of ${frameCount} frames`, async () => {
      await using scene = await FrameScene.greet();
      const frames = request(1, { headers });
      assertEquals(frames.length, frameCount);
      await scene.say(...frames);
      await scene.take();
      const [stream] = scene.streams;
      await stream?.ended;
      const expected = { ":method": "POST", ":path": "/x", ...headers };
      assertEquals(stream?.headers, expected);
      assertEquals([stream?.body.length, stream?.failure], [0, undefined]);
    });
  }
});

Deno.test("Http2Connection.serve() reads a body, and makes room for more", async () => {
  await using scene = await FrameScene.greet();
  const stream = await scene.begin(1, { endStream: false });
  const payload = Uint8Array.of(3, 1, 2, 0, 0, 0);
  await scene.say(
    makeFrame("data", { streamId: 1, flags: Flag.padded, payload }),
  );
  assertEquals(await scene.take(), [
    windowUpdateFrame(0, payload.length),
    windowUpdateFrame(1, payload.length),
  ]);
  assertEquals(stream.hasEnded, false);
  const last = { streamId: 1, flags: Flag.endStream };
  await scene.say(
    makeFrame("data", { ...last, payload: Uint8Array.of(3) }),
  );
  await stream.ended;
  assertEquals(await scene.take(), [windowUpdateFrame(0, 1)]);
  assertEquals([...stream.body], [1, 2, 3]);
});

Deno.test("Http2Connection.serve() reads trailers, and headers that come twice", async () => {
  await using scene = await FrameScene.greet();
  const stream = await scene.begin(1, { endStream: false });
  const block = encodeHeaders([["a", "1"], ["b", "2"], ["a", "3"]]);
  await scene.say(...headersFrames(1, block, { endStream: true }));
  await stream.ended;
  assertEquals(stream.trailers, { a: "1, 3", b: "2" });
});

Deno.test("Http2Connection.serve() ends a connection on which something is wrong", async (t) => {
  const http1 = new TextEncoder().encode(
    "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
  );
  const greeting = [PREFACE, settingsFrame()];
  const data = (streamId: number): Frame => makeFrame("data", { streamId });
  const rows: [
    name: string,
    what: (Bytes | Frame)[],
    code: keyof typeof ErrorCode,
  ][] = [
    ["another protocol", [http1], "protocolError"],
    ["no SETTINGS at first", [PREFACE, PING], "protocolError"],
    ["a stream of the server's", [...greeting, ...request(2)], "protocolError"],
    [
      "a stream that is late",
      [...greeting, ...request(3), ...request(1)],
      "protocolError",
    ],
    ["data of no stream", [...greeting, data(1)], "protocolError"],
    [
      "room for no stream",
      [...greeting, windowUpdateFrame(1, 1)],
      "protocolError",
    ],
    [
      "data of a stream that has ended",
      [...greeting, ...request(1), data(1)],
      "streamClosed",
    ],
    [
      "headers that cannot be read",
      [...greeting, ...headersFrames(1, Uint8Array.of(0x80))],
      "compressionError",
    ],
    ["a push", [...greeting, makeFrame("pushPromise", {})], "protocolError"],
    ["a window of 2 GiB", [
      ...greeting,
      windowUpdateFrame(0, 2 ** 31 - 1),
    ], "flowControlError"],
    [
      "a frame that is too long",
      [...greeting, makeFrame("ping", { payload: new Uint8Array(20_000) })],
      "frameSizeError",
    ],
  ];
  for (const [name, what, code] of rows) {
    await t.step(name, async () => {
      await using scene = await FrameScene.start();
      await scene.say(...what);
      const frame = (await scene.takeToEnd()).at(-1);
      assertEquals(frame?.type, FrameType.goAway);
      assertEquals(frame?.payload.at(-1), ErrorCode[code]);
    });
  }
});
