import { assert, assertEquals, assertThrows } from "@std/assert";
import { readerOf, readText } from "../tests/_harness/answer_bytes.ts";
import { encodeHttpRequest, type Http1Request } from "./http1.ts";

const GET: Http1Request = { method: "GET", host: "h", path: "/", headers: [] };

Deno.test("encodeHttpRequest() has head and body in one", async (t) => {
  const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
  await t.step("GET", () => {
    const bytes = encodeHttpRequest({
      method: "GET",
      host: "[::1]:6443",
      path: "/api?x=%2C",
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
    const request = { ...GET, method: "PATCH", path: "/p", body: '"é"' };
    assertEquals(
      decode(encodeHttpRequest(request)),
      'PATCH /p HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n"é"',
    );
  });
  await t.step("POST of nothing", () => {
    assertEquals(
      decode(encodeHttpRequest({ ...GET, method: "POST" })),
      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
    );
  });
});

Deno.test("encodeHttpRequest() refuses what would be another request", async (t) => {
  const rows: [string, Partial<Http1Request>][] = [
    ["two headers in one", { headers: [["A", "a\r\nb: c"]] }],
    ["half of that", { headers: [["A", "a\nb"]] }],
    ["NUL", { headers: [["A", "\0"]] }],
    ["a name that is none", { headers: [["A: b\r\nC", "d"]] }],
    ["a name with a value", { headers: [["A: b", "c"]] }],
    ["a method whose answer has no body", { method: "HEAD" }],
    ["a method that is none", { method: "GET / HTTP/1.1\r\nA: b\r\n\r\nGET" }],
    ["a path with a blank", { path: "/a HTTP/1.0" }],
    ["a path with an end", { path: "/a\r\nb: c" }],
    ["a path from nowhere", { path: "a" }],
  ];
  for (const [name, what] of rows) {
    await t.step(name, () => {
      assertThrows(() => encodeHttpRequest({ ...GET, ...what }), TypeError);
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
    [
      "in chunks whose sizes begin with zeros",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
      "0000000000000002\r\nab\r\n00000000000000000\r\n\r\n",
      200,
      "ab",
      true,
    ],
    [
      "in chunks with a lot to say",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
      `400 ; x="y"${"z".repeat(2000)}\r\n${"a".repeat(1024)}\r\n`.repeat(99) +
      "0\r\n\r\n",
      200,
      "a".repeat(1024 * 99),
      true,
    ],
    ["nothing", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", true],
    ["nothing new", "HTTP/1.1 304 x\r\n\r\n", 304, "", true],
    [
      "nothing, with a length",
      "HTTP/1.1 204 x\r\nContent-Length: 3\r\n\r\n",
      204,
      "",
      false,
    ],
    [
      "nothing, in chunks",
      "HTTP/1.1 304 x\r\nTransfer-Encoding: chunked\r\n\r\n",
      304,
      "",
      false,
    ],
    [
      "by a length on two lines",
      "HTTP/1.1 200 OK\r\nContent-Length:\r\n\t 2\r\n\r\nab",
      200,
      "ab",
      true,
    ],
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
      "HTTP/1.1 200 OK\r\nA:  b \t\r\nx: 1\r\nX: 2\r\nEmpty:\r\n" +
        "Long: a\r\n b \r\n\tc\r\nlong: d\r\nContent-Length: 0\r\n\r\n",
    );
    const { headers } = await reader.readHead();
    const names = ["a", "X", "empty", "long", "none"];
    const found = names.map((name) => headers.get(name));
    assertEquals(found, ["b", "1, 2", "", "a b c, d", null]);
  });
  for (const size of [1, Infinity]) {
    await t.step(`bytes above ASCII, ${size} at a time`, async () => {
      const text = "HTTP/1.1 204 \u00e9\r\nA: \u00e9\r\n\r\n";
      const { headers } = await readerOf(text, size).readHead();
      assertEquals(headers.get("a"), "\u00c3\u00a9");
    });
  }
  await t.step("many blanks, in no time", async () => {
    const value = `x${" ".repeat(60_000)}y`;
    const text = `HTTP/1.1 204 x\r\nA: ${value}\r\n\r\n`;
    const startMs = performance.now();
    const { headers } = await readerOf(text).readHead();
    assertEquals(headers.get("a"), value);
    assert(performance.now() - startMs < 1500, "it takes no longer than it is");
  });
});

Deno.test("AnswerReader.hasUnread says whether more has come than the answer", async (t) => {
  const ok = "HTTP/1.1 200 OK\r\n";
  const whole = `${ok}Content-Length: 1\r\n\r\na`;
  const chunks = `${ok}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n`;
  const rows: [string, string, boolean][] = [
    ["an answer", whole, false],
    ["one in chunks", chunks, false],
    ["one that ends with the connection", `${ok}\r\nabc`, false],
    ["a body that is longer than it says", `${whole}b`, true],
    ["bytes after the last chunk", `${chunks}\r`, true],
    ["another answer", whole + whole, true],
    ["a body where there is none", "HTTP/1.1 204 x\r\n\r\na", true],
  ];
  for (const [name, text, expected] of rows) {
    await t.step(name, async () => {
      const reader = readerOf(text);
      await reader.readHead();
      await readText(reader);
      assertEquals(reader.hasUnread, expected);
    });
  }
});
