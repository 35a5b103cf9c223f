import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { AnswerReader, encodeHttpRequest } from "./http1.ts";

/** Has text come in pieces of so many bytes, in the same memory each time. */
function readerOf(text: string, size = Infinity): AnswerReader {
  const bytes = new TextEncoder().encode(text);
  const memory = new Uint8Array(bytes.length);
  let at = 0;
  return new AnswerReader(() => {
    const piece = bytes.subarray(at, at + size);
    at += piece.length;
    memory.fill(0).set(piece);
    return Promise.resolve(
      piece.length === 0 ? undefined : memory.subarray(0, piece.length),
    );
  });
}

async function readText(reader: AnswerReader): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for (let piece; (piece = await reader.readPiece());) {
    text += decoder.decode(piece, { stream: true });
  }
  return text;
}

Deno.test("encodeHttpRequest() has head and body in one", async (t) => {
  const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
  await t.step("GET", () => {
    const bytes = encodeHttpRequest({
      method: "GET",
      url: "https://[::1]:6443/api?x=%2C",
      headers: [["Accept", "a"], ["Impersonate-Group", "g"], [
        "Impersonate-Group",
        "h",
      ]],
    });
    assertEquals(
      decode(bytes),
      "GET /api?x=%2C HTTP/1.1\r\nHost: [::1]:6443\r\nAccept: a\r\n" +
        "Impersonate-Group: g\r\nImpersonate-Group: h\r\n\r\n",
    );
  });
  await t.step("PATCH, whose length is in bytes", () => {
    const url = "https://h/p";
    const request = { method: "PATCH", url, headers: [], body: '"é"' };
    assertEquals(
      decode(encodeHttpRequest(request)),
      'PATCH /p HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n"é"',
    );
  });
  for (const value of ["a\r\nb: c", "a\nb", "\0"]) {
    await t.step(`but no header ${JSON.stringify(value)}`, () => {
      const request = { method: "GET", url: "https://h/" };
      assertThrows(() =>
        encodeHttpRequest({ ...request, headers: [["A", value]] })
      );
    });
  }
});

Deno.test("AnswerReader reads answers, however they come", async (t) => {
  const rows: readonly [string, string, number, string, boolean][] = [
    [
      "by length",
      "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabé",
      200,
      "abé",
      true,
    ],
    [
      "in chunks",
      "HTTP/1.1 201 Created\r\ntransfer-encoding: Chunked\r\n\r\n" +
      "3\r\nab\n\r\nA;x=y\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
      201,
      "ab\n0123456789",
      true,
    ],
    ["until the end", "HTTP/1.1 200 OK\r\n\r\nabc", 200, "abc", false],
    ["of HTTP/1.0", "HTTP/1.0 400 Bad Request\r\n\r\nno\n", 400, "no\n", false],
    [
      "the last",
      "HTTP/1.1 200\r\nConnection: Close\r\nContent-Length: 1\r\n\r\na",
      200,
      "a",
      false,
    ],
    ["nothing", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", true],
    [
      "with what comes before",
      "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
      200,
      "",
      true,
    ],
  ];
  for (const [name, text, status, body, staysOpen] of rows) {
    for (const size of [1, 7, Infinity]) {
      await t.step(`${name}, ${size} bytes at a time`, async () => {
        const reader = readerOf(text, size);
        const head = await reader.readHead();
        assertEquals([head.status, head.staysOpen], [status, staysOpen]);
        assertEquals(await readText(reader), body);
      });
    }
  }
  await t.step("one after the other", async () => {
    const [, [, first = ""] = [], [, second = ""] = []] = [[], ...rows];
    const reader = readerOf(first + second + first, 5);
    for (const expected of ["abé", "ab\n0123456789", "abé"]) {
      await reader.readHead();
      assertEquals(await readText(reader), expected);
    }
  });
  await t.step("headers", async () => {
    const reader = readerOf(
      "HTTP/1.1 200 OK\r\nA:  b \r\nx: 1\r\nX: 2\r\nEmpty:\r\nContent-Length: 0\r\n\r\n",
    );
    const { headers } = await reader.readHead();
    const found = ["a", "X", "empty", "none"].map((name) => headers.get(name));
    assertEquals(found, ["b", "1, 2", "", null]);
  });
});

Deno.test("AnswerReader refuses what is no whole answer", async (t) => {
  const ok = "HTTP/1.1 200 OK\r\n";
  const chunked = `${ok}Transfer-Encoding: chunked\r\n\r\n`;
  const rows: readonly [string, string, string][] = [
    ["nothing", "", "connection closed"],
    ["half a head", `${ok}Content`, "connection closed"],
    ["another protocol", "SSH-2.0-x\r\n", "it is no HTTP/1.1"],
    ["HTTP/2", "HTTP/2 200\r\n\r\n", "it is no HTTP/1.1"],
    ["an upgrade", "HTTP/1.1 101 x\r\n\r\n", "it goes on in another protocol"],
    ["half a body", `${ok}Content-Length: 5\r\n\r\nab`, "connection closed"],
    ["no length", `${ok}Content-Length: x\r\n\r\n`, 'its length is "x"'],
    [
      "two lengths",
      `${ok}Content-Length: 1\r\nContent-Length: 2\r\n\r\n`,
      'its length is "1, 2"',
    ],
    [
      "an unknown encoding",
      `${ok}Transfer-Encoding: gzip\r\n\r\n`,
      'its encoding is "gzip"',
    ],
    ["half a chunk", `${chunked}5\r\nab`, "connection closed"],
    ["too few chunks", `${chunked}1\r\na\r\n`, "connection closed"],
    ["no size", `${chunked}x\r\n`, "a chunk has no size"],
    [
      "a wrong size",
      `${chunked}1\r\nab\r\n0\r\n\r\n`,
      "a chunk is longer than it says",
    ],
    ["no name", `${ok}: x\r\n\r\n`, "a header has no name"],
    ["a long line", `HTTP/1.1 200 ${"x".repeat(70_000)}`, "a line has no end"],
    [
      "many headers",
      ok + `A: ${"x".repeat(60_000)}\r\n`.repeat(2),
      "its head has no end",
    ],
  ];
  for (const [name, text, why] of rows) {
    await t.step(name, async () => {
      const reader = readerOf(text, 1000);
      await assertRejects(
        async () => {
          await reader.readHead();
          await readText(reader);
        },
        Error,
        why,
      );
    });
  }
});
