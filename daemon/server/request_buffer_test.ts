import { assertEquals, assertThrows } from "@std/assert";
import { encodeRequest } from "../../tests/_harness/call_format.ts";
import { RequestBuffer } from "./request_buffer.ts";

const REQUEST = encodeRequest({
  build: "b1",
  name: "ptp",
  env: { CNI_COMMAND: "ADD" },
  stdin: new TextEncoder().encode("{}"),
});
const MAX = 1000;

Deno.test("RequestBuffer collects a request from any pieces", () => {
  for (const size of [1, 7, 39, 40, 41, REQUEST.length - 1, REQUEST.length]) {
    const buffer = new RequestBuffer();
    for (let at = 0; at < REQUEST.length; at += size) {
      const piece = REQUEST.slice(at, at + size);
      const whole = buffer.add(piece, MAX);
      piece.fill(0);
      assertEquals(buffer.length, Math.min(at + size, REQUEST.length));
      const isLast = at + size >= REQUEST.length;
      assertEquals(whole, isLast ? REQUEST : undefined);
    }
  }
});

Deno.test("RequestBuffer refuses malformed and oversized requests", () => {
  const { length } = REQUEST;
  const text = new TextEncoder().encode("hello");
  assertThrows(() => new RequestBuffer().add(text, MAX), Error, "format");
  assertThrows(() => new RequestBuffer().add(REQUEST, length - 1), RangeError);
  const rest = new Uint8Array([...REQUEST.slice(50), 0]);
  const buffer = new RequestBuffer();
  buffer.add(REQUEST.slice(0, 50), MAX);
  assertThrows(
    () => buffer.add(rest, MAX),
    Error,
    "longer than its stated length",
  );
  buffer.free();
  assertEquals(buffer.length, 0);
});
