import { assertEquals, assertRejects } from "@std/assert";
import type { Bytes } from "../../../ffi/libc.ts";
import { concat } from "../../../ffi/netlink/struct.ts";
import { FrameReader } from "./frame_reader.ts";
import {
  encodeFrame,
  Flag,
  type Frame,
  headersFrames,
  makeFrame,
  PREFACE,
} from "./frames.ts";
import { ErrorCode, Http2Error } from "./http2_error.ts";

/** Returns a reader to whom bytes come in pieces, and then no more. */
function readerOf(bytes: Bytes, pieceLength: number): FrameReader {
  let at = 0;
  return new FrameReader({
    read(buffer): Promise<number | null> {
      const piece = bytes.subarray(at, at + pieceLength);
      at += piece.length;
      buffer.set(piece);
      return Promise.resolve(piece.length === 0 ? null : piece.length);
    },
  });
}

async function readAll(
  frames: readonly Frame[],
  { pieceLength = 65_536, cutAt = Infinity } = {},
): Promise<Frame[]> {
  const bytes = concat(frames.map(encodeFrame)).subarray(0, cutAt);
  const reader = readerOf(bytes, pieceLength);
  const read: Frame[] = [];
  for (;;) {
    const frame = await reader.read();
    if (frame === undefined) return read;
    read.push(frame);
  }
}

const DATA = makeFrame("data", { streamId: 1, payload: Uint8Array.of(1, 2) });
const PING = makeFrame("ping", { payload: new Uint8Array(8) });
const BLOCK = Uint8Array.from({ length: 10 }, (_, index) => index);
const [HEAD = DATA, ...REST] = headersFrames(1, BLOCK, { maxLength: 4 });

Deno.test("FrameReader.read() reads frames however they come", async (t) => {
  for (const pieceLength of [1, 5, 9, 12, 65_536]) {
    await t.step(`${pieceLength} bytes at a time`, async () => {
      const frames = [DATA, PING, DATA];
      assertEquals(await readAll(frames, { pieceLength }), frames);
    });
  }
});

Deno.test("FrameReader.read() joins headers with all that continues them", async () => {
  const [whole] = headersFrames(1, BLOCK);
  assertEquals(await readAll([HEAD, ...REST, PING]), [whole, PING]);
});

Deno.test("FrameReader.read() takes padding off headers, but not off what continues them", async () => {
  const flags = Flag.padded | Flag.endStream;
  const padded = makeFrame("headers", {
    streamId: 1,
    flags,
    payload: Uint8Array.of(2, ...BLOCK.subarray(0, 4), 0, 0),
  });
  const rest = REST.map((frame) => ({
    ...frame,
    flags: frame.flags | Flag.padded,
  }));
  const [whole] = headersFrames(1, BLOCK, { endStream: true });
  assertEquals(await readAll([padded, ...rest]), [whole]);
});

Deno.test("FrameReader.read() ends with the connection, amid a frame too", async (t) => {
  const rows: [cutAt: number, frames: Frame[]][] = [
    [0, []],
    [8, []],
    [10, []],
    [11, [DATA]],
  ];
  for (const [cutAt, frames] of rows) {
    await t.step(`after ${cutAt} bytes`, async () => {
      assertEquals(await readAll([DATA, DATA], { cutAt }), frames);
    });
  }
  await t.step("amid headers", async () => {
    assertEquals(await readAll([HEAD]), []);
  });
});

Deno.test("FrameReader.read() refuses what may not come", async (t) => {
  const { frameSizeError, protocolError } = ErrorCode;
  const other = { ...REST[0] ?? DATA, streamId: 3 };
  const long = makeFrame("data", { payload: new Uint8Array(16_385) });
  const rows: [name: string, frames: Frame[], code: number][] = [
    ["a frame that is too long", [long], frameSizeError],
    ["what continues nothing", REST, protocolError],
    ["something amid headers", [HEAD, DATA], protocolError],
    ["what continues other headers", [HEAD, other], protocolError],
  ];
  for (const [name, frames, code] of rows) {
    await t.step(name, async () => {
      const error = await assertRejects(() => readAll(frames), Http2Error);
      assertEquals(error.code, code);
    });
  }
});

Deno.test("FrameReader.readPreface() knows a client of HTTP/2", async (t) => {
  await t.step("by what it says first", async () => {
    const reader = readerOf(concat([PREFACE, encodeFrame(PING)]), 7);
    await reader.readPreface();
    assertEquals(await reader.read(), PING);
  });
  for (const text of ["", "GET / HTTP/1.1\r\nHost: example\r\n\r\n"]) {
    await t.step(`and not by "${text.slice(0, 3)}"`, async () => {
      const reader = readerOf(new TextEncoder().encode(text), 7);
      await assertRejects(() => reader.readPreface(), Http2Error);
    });
  }
});
