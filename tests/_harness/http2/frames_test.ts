import { assertEquals, assertThrows } from "@std/assert";
import {
  contentOf,
  decodeHead,
  decodeNumber,
  decodeSettings,
  encodeFrame,
  Flag,
  goAwayFrame,
  headersFrames,
  makeFrame,
  resetFrame,
  settingsFrame,
  windowUpdateFrame,
} from "./frames.ts";
import { ErrorCode, Http2Error } from "./http2_error.ts";

Deno.test("encodeFrame() writes what RFC 9113 draws", async (t) => {
  const payload = Uint8Array.of(7, 8);
  const flags = Flag.endStream | Flag.padded;
  const rows = [
    ["DATA", makeFrame("data", { streamId: 3, flags, payload }), [
      ...[0, 0, 2, 0x00, 0x09, 0, 0, 0, 3],
      ...[7, 8],
    ]],
    ["SETTINGS", settingsFrame(), [0, 0, 0, 0x04, 0, 0, 0, 0, 0]],
    ["SETTINGS with a window", settingsFrame({ initialWindowSize: 0x10203 }), [
      ...[0, 0, 6, 0x04, 0, 0, 0, 0, 0],
      ...[0, 4, 0, 1, 2, 3],
    ]],
    ["RST_STREAM", resetFrame(0x01020304, 8), [
      ...[0, 0, 4, 0x03, 0, 1, 2, 3, 4],
      ...[0, 0, 0, 8],
    ]],
    ["GOAWAY", goAwayFrame(5, 1), [
      ...[0, 0, 8, 0x07, 0, 0, 0, 0, 0],
      ...[0, 0, 0, 5, 0, 0, 0, 1],
    ]],
    ["WINDOW_UPDATE", windowUpdateFrame(1, 0x100), [
      ...[0, 0, 4, 0x08, 0, 0, 0, 0, 1],
      ...[0, 0, 1, 0],
    ]],
  ] as const;
  for (const [name, frame, bytes] of rows) {
    await t.step(name, () => assertEquals([...encodeFrame(frame)], [...bytes]));
  }
});

Deno.test("decodeHead() leaves the reserved bit alone", () => {
  const head = Uint8Array.of(1, 2, 3, 9, 0x25, 0xff, 0xff, 0xff, 0xff);
  assertEquals(decodeHead(head), {
    length: 0x010203,
    type: 9,
    flags: 0x25,
    streamId: 0x7fffffff,
  });
});

Deno.test("headersFrames() continues what is too long for a frame", async (t) => {
  const split = (length: number): number[][] =>
    headersFrames(1, new Uint8Array(length), { endStream: true, maxLength: 4 })
      .map(({ type, flags, payload }) => [type, flags, payload.length]);
  const rows: [length: number, frames: number[][]][] = [
    [0, [[1, 5, 0]]],
    [4, [[1, 5, 4]]],
    [5, [[1, 1, 4], [9, 4, 1]]],
    [9, [[1, 1, 4], [9, 0, 4], [9, 4, 1]]],
  ];
  for (const [length, frames] of rows) {
    await t.step(`${length} bytes`, () => assertEquals(split(length), frames));
  }
});

Deno.test("contentOf() is without padding and priority", async (t) => {
  const { padded, priority } = Flag;
  const rows: [
    name: string,
    type: "data" | "headers",
    flags: number,
    payload: number[],
    content: number[],
  ][] = [
    ["plain", "data", 0, [1, 2], [1, 2]],
    ["padded", "data", padded, [2, 1, 2, 0, 0], [1, 2]],
    ["only padding", "data", padded, [1, 0], []],
    ["no padding", "data", padded, [0, 1], [1]],
    ["headers with a priority", "headers", priority, [0, 0, 0, 0, 9, 1], [1]],
    ["and padded", "headers", priority | padded, [1, 0, 0, 0, 0, 9, 1, 0], [1]],
    ["priority, which DATA do not have", "data", priority, [1], [1]],
  ];
  for (const [name, type, flags, payload, content] of rows) {
    await t.step(name, () => {
      const frame = makeFrame(type, {
        flags,
        payload: Uint8Array.from(payload),
      });
      assertEquals([...contentOf(frame)], content);
    });
  }
  await t.step("but not if it is all of it and more", () => {
    const payload = Uint8Array.of(2, 1);
    const frame = makeFrame("data", { flags: padded, payload });
    const error = assertThrows(() => contentOf(frame), Http2Error);
    assertEquals(error.code, ErrorCode.protocolError);
  });
});

Deno.test("decodeSettings() reads what is known and what is not", () => {
  const payload = Uint8Array.of(0, 4, 0, 0, 1, 0, 0xff, 1, 0, 0, 0, 2);
  const settings = decodeSettings(makeFrame("settings", { payload }));
  assertEquals([...settings], [[4, 256], [0xff01, 2]]);
});

Deno.test("a frame of the wrong length is refused", async (t) => {
  const payload = new Uint8Array(5);
  const rows = {
    SETTINGS: () => decodeSettings(makeFrame("settings", { payload })),
    WINDOW_UPDATE: () => decodeNumber(makeFrame("windowUpdate", { payload })),
  };
  for (const [name, decode] of Object.entries(rows)) {
    await t.step(name, () => {
      const error = assertThrows(decode, Http2Error);
      assertEquals(error.code, ErrorCode.frameSizeError);
    });
  }
});
