import { assertEquals } from "@std/assert";
import { kubeErrorOf } from "./testing/kube_scene.ts";
import { type Exchange, readAnswer, readChunks } from "./answer.ts";
import { eachRow } from "../tests/_harness/table.ts";

function exchange(
  body: BodyInit | null,
  init: ResponseInit = {},
): Exchange {
  return {
    request: { method: "GET", url: "https://h/x" },
    answer: new Response(body, init),
    signal: new AbortController().signal,
  };
}

/** Builds a body that arrives in pieces, and may break off. */
function pieces(
  texts: readonly string[],
  error?: Error,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const rest = texts.values();
  return new ReadableStream({
    pull(controller): void {
      const { done, value } = rest.next();
      if (!done) return controller.enqueue(new TextEncoder().encode(value));
      error === undefined ? controller.close() : controller.error(error);
    },
  });
}

Deno.test("readAnswer() reads an object", async (t) => {
  await t.step("in one piece", async () => {
    assertEquals(await readAnswer(exchange('{"a":1}')), { a: 1 });
  });
  await t.step("in pieces, between which a character is split", async () => {
    const bytes = new TextEncoder().encode('{"a":"ä"}');
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
      start(controller): void {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
        controller.close();
      },
    });
    assertEquals(await readAnswer(exchange(body)), { a: "ä" });
  });
  await t.step("201", async () => {
    assertEquals(await readAnswer(exchange("{}", { status: 201 })), {});
  });
});

Deno.test("readAnswer() refuses anything but an object", async (t) => {
  const type = { headers: { "content-type": "text/html" } };
  const notJson = "the answer is not a JSON object but ";
  const rows: readonly [string, Exchange, number, string][] = [
    ["HTML", exchange("<html>", type), 200, `${notJson}text/html`],
    ["half of it", exchange('{"a":', type), 200, `${notJson}text/html`],
    ["text", exchange('"x"', type), 200, `${notJson}text/html`],
    ["null", exchange("null", type), 200, `${notJson}text/html`],
    ["nothing", exchange(null), 200, `${notJson}no type`],
    [
      "too much",
      exchange(pieces(["12345", "67890"])),
      200,
      "the answer is longer than 8 bytes",
    ],
    [
      "an error",
      exchange("", { status: 503 }),
      503,
      "the server is currently unable to handle the request",
    ],
    [
      "an error whose rest does not come",
      exchange(pieces(["Client"], new TypeError("Connection reset")), {
        status: 400,
      }),
      400,
      "the server rejected our request for an unknown reason",
    ],
    [
      "an end too early",
      exchange(
        pieces(
          ['{"a":'],
          new TypeError("error reading a body from connection"),
        ),
      ),
      0,
      "unexpected EOF",
    ],
  ];
  await eachRow(t, rows, async ([, given, status, why]) => {
    const error = await kubeErrorOf(readAnswer(given, 8));
    assertEquals([error.status, error.message], [
      status,
      `Get "https://h/x": ${why}`,
    ]);
  });
});

Deno.test("readChunks() cancels the rest if the loop ends early", async () => {
  let isCancelled = false;
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull: (controller) => controller.enqueue(new Uint8Array(9)),
    cancel: () => {
      isCancelled = true;
    },
  });
  for await (const chunk of readChunks(exchange(body))) {
    assertEquals(chunk.length, 9);
    break;
  }
  assertEquals(isCancelled, true);
});
