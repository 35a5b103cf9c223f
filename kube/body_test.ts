import { assert, assertEquals, assertRejects } from "@std/assert";
import { readBody } from "./body.ts";

/** Builds a body that arrives in pieces, and records its end. */
function bytesOf(
  pieces: readonly string[],
  log: string[] = [],
): ReadableStream<Uint8Array> {
  const rest = pieces.values();
  return new ReadableStream({
    type: "bytes",
    pull(controller): void {
      const { done, value } = rest.next();
      if (done) {
        controller.close();
        controller.byobRequest?.respond(0);
      } else if (value === "!") controller.error(new Error("broken off"));
      else controller.enqueue(new TextEncoder().encode(value));
    },
    cancel: () => void log.push("cancelled"),
  });
}

async function collect(body: ReadableStream<Uint8Array>): Promise<string[]> {
  const texts: string[] = [];
  for await (const piece of readBody(body)) {
    texts.push(new TextDecoder().decode(piece));
  }
  return texts;
}

Deno.test("readBody() reads all there is", async (t) => {
  const rows: [string, ReadableStream<Uint8Array>, string][] = [
    ["bytes", bytesOf(["one", "two"]), "onetwo"],
    ["nothing", bytesOf([]), ""],
    [
      "what is made of an iterator",
      ReadableStream.from([
        new TextEncoder().encode("one"),
        new TextEncoder().encode("two"),
      ]),
      "onetwo",
    ],
    ["a long one", bytesOf(["a".repeat(200_000)]), "a".repeat(200_000)],
  ];
  for (const [name, body, expected] of rows) {
    await t.step(name, async () => {
      assertEquals((await collect(body)).join(""), expected);
    });
  }
});

Deno.test("readBody() throws what a body breaks off with", async () => {
  await assertRejects(
    () => collect(bytesOf(["one", "!"])),
    Error,
    "broken off",
  );
});

Deno.test("readBody() has the rest cancelled by who leaves early", async () => {
  const log: string[] = [];
  for await (const piece of readBody(bytesOf(["one", "two"], log))) {
    assertEquals(new TextDecoder().decode(piece), "one");
    break;
  }
  assertEquals(log, ["cancelled"]);
});

Deno.test("readBody() reads a real answer into the same memory", async () => {
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen(): void {} },
    () => new Response(bytesOf(["a".repeat(40_000), "b".repeat(40_000)])),
  );
  const { body } = await fetch(`http://127.0.0.1:${server.addr.port}`);
  assert(body !== null);
  let length = 0;
  for await (const piece of readBody(body)) {
    assertEquals(piece.buffer.byteLength, 65536);
    length += piece.length;
  }
  assertEquals(length, 80_000);
});
