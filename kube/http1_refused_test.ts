import { assertRejects } from "@std/assert";
import { readerOf, readText } from "../tests/_harness/answer_bytes.ts";

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
    ...["x", "", "-1", "+1", "1.0", "0x1", "1 1", "9".repeat(16), "5, 5"].map(
      (length): [string, string, string] => [
        `the length "${length}"`,
        `${ok}Content-Length: ${length}\r\n\r\n12345`,
        `its length is "${length}"`,
      ],
    ),
    [
      "two lengths",
      `${ok}Content-Length: 1\r\nContent-Length: 2\r\n\r\n`,
      'its length is "1, 2"',
    ],
    [
      "one length twice",
      `${ok}Content-Length: 1\r\ncontent-length: 1\r\n\r\na`,
      'its length is "1, 1"',
    ],
    [
      "two lengths, folded",
      `${ok}Content-Length: 1\r\n 2\r\n\r\n123456789012`,
      'its length is "1 2"',
    ],
    [
      "a length and chunks",
      `${ok}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      "it has both chunks and a length",
    ],
    ...["gzip", "gzip, chunked", "chunked, chunked", "identity", ""].map(
      (encoding): [string, string, string] => [
        `the encoding "${encoding}"`,
        `${ok}Transfer-Encoding: ${encoding}\r\n\r\n0\r\n\r\n`,
        `its encoding is "${encoding}"`,
      ],
    ),
    [
      "chunks of HTTP/1.0",
      "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      'its encoding is "chunked"',
    ],
    ["half a chunk", `${chunked}5\r\nab`, "connection closed"],
    ["too few chunks", `${chunked}1\r\na\r\n`, "connection closed"],
    ["no size", `${chunked}x\r\n`, "a chunk has no size"],
    [
      "a wrong size",
      `${chunked}1\r\nab\r\n0\r\n\r\n`,
      "a chunk is longer than it says",
    ],
    [
      "a wrong size, in lines",
      `${chunked}1\r\na\nb\r\n0\r\n\r\n`,
      "of its own",
    ],
    ...["100000000", "fffffffffffffffff", "-1", "+1", "0x1", "", " 1"].map(
      (size): [string, string, string] => [
        `the size "${size}"`,
        `${chunked}${size}\r\na`,
        "a chunk has no size",
      ],
    ),
    [
      "a size without its end",
      `${chunked}1\na\r\n0\r\n\r\n`,
      "a line has a CR, LF or NUL of its own",
    ],
    [
      "an end within an extension",
      `${chunked}1;a\nb\r\na\r\n0\r\n\r\n`,
      "a line has a CR, LF or NUL of its own",
    ],
    [
      "more extensions than content",
      `${chunked}${`1;${"x".repeat(1000)}\r\na\r\n`.repeat(100)}0\r\n\r\n`,
      "the head of a chunk has no end",
    ],
    [
      "trailers without end",
      `${chunked}0\r\n${"a: b\r\n".repeat(20_000)}`,
      "the head of a chunk has no end",
    ],
    ["no status", "HTTP/1.1 099 x\r\n\r\n", "it is no HTTP/1.1"],
    [
      "a promise without end",
      "HTTP/1.1 100 Continue\r\n\r\n".repeat(5000),
      "its head has no end",
    ],
    ...[": x", "no colon", "Content-Length : 1", " a: folded", "a b: c"].map(
      (header): [string, string, string] => [
        `the header "${header}"`,
        `${ok}${header}\r\n\r\n`,
        "a header has no name",
      ],
    ),
    [
      "a mark before a header",
      `${ok}\ufeffContent-Length: 0\r\n\r\n`,
      "a header has no name",
    ],
    ...["a\rContent-Length: 1", "a\nContent-Length: 1", "a\0"].map(
      (value): [string, string, string] => [
        `the value ${JSON.stringify(value)}`,
        `${ok}A: ${value}\r\n\r\n`,
        "a line has a CR, LF or NUL of its own",
      ],
    ),
    [
      "a long line",
      `HTTP/1.1 200 ${"x".repeat(70_000)}`,
      "its head has no end",
    ],
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
