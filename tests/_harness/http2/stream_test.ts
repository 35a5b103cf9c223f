import { assertEquals } from "@std/assert";
import { eventually } from "../eventually.ts";
import { FrameScene } from "./frame_scene.ts";
import {
  Flag,
  FrameType,
  makeFrame,
  resetFrame,
  settingsFrame,
  windowUpdateFrame,
} from "./frames.ts";
import { HpackDecoder } from "./hpack.ts";
import { ErrorCode } from "./http2_error.ts";
import type { Http2Stream } from "./stream.ts";

Deno.test("Http2Stream.sendData() sends no more than the stream has room for", async () => {
  await using scene = await FrameScene.greet(
    settingsFrame({ initialWindowSize: 10 }),
  );
  const stream = await scene.begin();
  const sent = stream.sendData(new Uint8Array(25));
  assertEquals(await scene.takeLengths(), [10]);
  await scene.say(windowUpdateFrame(0, 100));
  assertEquals(await scene.takeLengths(), []);
  await scene.say(windowUpdateFrame(1, 4));
  assertEquals(await scene.takeLengths(), [4]);
  await scene.say(settingsFrame({ initialWindowSize: 15 }));
  assertEquals(await scene.takeLengths(), [5]);
  await scene.say(windowUpdateFrame(1, 100));
  assertEquals(await scene.takeLengths(), [6]);
  await sent;
});

Deno.test("Http2Stream.sendData() sends no more than the connection has room for", async () => {
  await using scene = await FrameScene.greet(
    settingsFrame({ initialWindowSize: 1_000_000 }),
  );
  const stream = await scene.begin();
  const sent = stream.sendData(new Uint8Array(70_000));
  const frame = 16_384;
  assertEquals(await scene.takeLengths(), [frame, frame, frame, frame - 1]);
  await scene.say(windowUpdateFrame(0, 4_000));
  assertEquals(await scene.takeLengths(), [4_000]);
  await scene.say(windowUpdateFrame(0, 4_000));
  assertEquals(await scene.takeLengths(), [465]);
  await sent;
});

Deno.test("Http2Stream.sendData() waits for no other stream", async () => {
  await using scene = await FrameScene.greet(
    settingsFrame({ initialWindowSize: 10 }),
  );
  const [slow, fast] = [await scene.begin(1), await scene.begin(3)];
  void slow.sendData(new Uint8Array(20));
  await fast.sendData(new Uint8Array(5));
  const frames = await scene.take();
  assertEquals(
    frames.map(({ streamId, payload }) => [streamId, payload.length]),
    [
      [1, 10],
      [3, 5],
    ],
  );
});

Deno.test("Http2Stream sends headers, a body and trailers", async () => {
  await using scene = await FrameScene.greet();
  const stream = await scene.begin();
  const long = "x".repeat(20_000);
  await stream.sendHeaders({ ":status": "200", long });
  await stream.sendData(Uint8Array.of(1));
  await stream.sendHeaders({ end: "1" }, { endStream: true });
  const decoder = new HpackDecoder();
  const frames = (await scene.take()).map(({ type, flags, payload }) => [
    type,
    flags,
    type === FrameType.headers ? decoder.decode(payload) : [...payload],
  ]);
  const { endHeaders, endStream } = Flag;
  assertEquals(frames, [
    [FrameType.headers, endHeaders, [[":status", "200"], ["long", long]]],
    [FrameType.data, 0, [1]],
    [FrameType.headers, endHeaders | endStream, [["end", "1"]]],
  ]);
});

/** Sends more than there is room for, and returns whether that has ended. */
function sendMuch(stream: Http2Stream): () => boolean {
  let hasEnded = false;
  void stream.sendData(new Uint8Array(25)).then(() => hasEnded = true);
  return () => hasEnded;
}

Deno.test("Http2Stream ends when the client resets it", async () => {
  await using scene = await FrameScene.greet(
    settingsFrame({ initialWindowSize: 10 }),
  );
  const stream = await scene.begin(1, { endStream: false });
  const hasEnded = sendMuch(stream);
  await scene.say(resetFrame(1, ErrorCode.cancel));
  assertEquals(await scene.takeLengths(), [10]);
  assertEquals([hasEnded(), stream.hasEnded, stream.isClosed], [
    ...[true, true, true],
  ]);
  assertEquals(stream.resetBy, ErrorCode.cancel);
  assertEquals(stream.failure?.message, "The stream was reset with code 8");
  await stream.sendHeaders({ late: "1" });
  await stream.sendEnd();
  await stream.reset(ErrorCode.internalError);
  assertEquals(await scene.take(), []);
});

Deno.test("Http2Stream.reset() leaves alone what has been on its way", async () => {
  await using scene = await FrameScene.greet();
  const stream = await scene.begin(1, { endStream: false });
  await stream.reset(ErrorCode.internalError);
  const flags = Flag.endStream;
  await scene.say(
    makeFrame("data", { streamId: 1 }),
    makeFrame("data", { streamId: 1, flags }),
    makeFrame("data", { streamId: 1, flags }),
    resetFrame(1, ErrorCode.cancel),
  );
  assertEquals(await scene.take(), [resetFrame(1, ErrorCode.internalError)]);
});

Deno.test("Http2Stream ends with the connection", async () => {
  await using scene = await FrameScene.greet(
    settingsFrame({ initialWindowSize: 10 }),
  );
  const stream = await scene.begin(1, { endStream: false });
  const hasEnded = sendMuch(stream);
  await scene.takeToEnd();
  await eventually("it ended", () => stream.hasEnded && hasEnded());
  assertEquals(stream.failure?.message, "The connection has ended");
});
