import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import type { Bytes } from "../../../ffi/libc.ts";
import { encodeHeaders, encodeInteger, HpackDecoder } from "./hpack.ts";
import { ErrorCode, Http2Error } from "./http2_error.ts";
import type { HeaderField } from "./static_table.ts";

/** A block, what it says, and how much is remembered after it. */
type Block = readonly [hex: string, fields: HeaderField[], size: number];

const GET: HeaderField[] = [
  [":method", "GET"],
  [":scheme", "http"],
  [":path", "/"],
  [":authority", "www.example.com"],
];

const REQUESTS: HeaderField[][] = [
  GET,
  [...GET, ["cache-control", "no-cache"]],
  [
    [":method", "GET"],
    [":scheme", "https"],
    [":path", "/index.html"],
    [":authority", "www.example.com"],
    ["custom-key", "custom-value"],
  ],
];

const FIRST_DATE = "Mon, 21 Oct 2013 20:13:21 GMT";

function response(status: string, date: string): HeaderField[] {
  return [
    [":status", status],
    ["cache-control", "private"],
    ["date", date],
    ["location", "https://www.example.com"],
  ];
}

const RESPONSES: HeaderField[][] = [
  response("302", FIRST_DATE),
  response("307", FIRST_DATE),
  [
    ...response("200", "Mon, 21 Oct 2013 20:13:22 GMT"),
    ["content-encoding", "gzip"],
    [
      "set-cookie",
      "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
    ],
  ],
];

function bytesOf(hex: string): Bytes {
  return Uint8Array.fromHex(hex.replaceAll(" ", ""));
}

/** Joins what is said with how it is written. */
function blocks(
  said: HeaderField[][],
  written: readonly (readonly [hex: string, size: number])[],
): Block[] {
  return written.map(([hex, size], index) => [hex, said[index] ?? [], size]);
}

// Source: RFC 7541 appendix C.
const EXAMPLES: Readonly<Record<string, readonly Block[]>> = {
  "C.2.1": [[
    "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
    [["custom-key", "custom-header"]],
    55,
  ]],
  "C.2.2": [[
    "040c 2f73 616d 706c 652f 7061 7468",
    [[":path", "/sample/path"]],
    0,
  ]],
  "C.2.3": [[
    "1008 7061 7373 776f 7264 0673 6563 7265 74",
    [["password", "secret"]],
    0,
  ]],
  "C.2.4": [["82", [[":method", "GET"]], 0]],
  "C.3, requests": blocks(REQUESTS, [
    ["8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", 57],
    ["8286 84be 5808 6e6f 2d63 6163 6865", 110],
    [
      "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
      164,
    ],
  ]),
  "C.4, requests with Huffman's code": blocks(REQUESTS, [
    ["8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", 57],
    ["8286 84be 5886 a8eb 1064 9cbf", 110],
    ["8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", 164],
  ]),
  "C.5, responses": blocks(RESPONSES, [
    [
      "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 " +
      "3230 3133 2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 " +
      "7777 2e65 7861 6d70 6c65 2e63 6f6d",
      222,
    ],
    ["4803 3330 37c1 c0bf", 222],
    [
      "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 " +
      "3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a " +
      "584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 " +
      "3630 303b 2076 6572 7369 6f6e 3d31",
      215,
    ],
  ]),
  "C.6, responses with Huffman's code": blocks(RESPONSES, [
    [
      "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 " +
      "66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
      222,
    ],
    ["4883 640e ffc1 c0bf", 222],
    [
      "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a " +
      "839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 " +
      "72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
      215,
    ],
  ]),
};

Deno.test("HpackDecoder.decode() reads the standard's examples", async (t) => {
  for (const [name, example] of Object.entries(EXAMPLES)) {
    await t.step(name, () => {
      const decoder = new HpackDecoder(name.includes("responses") ? 256 : 4096);
      for (const [hex, fields, size] of example) {
        assertEquals(decoder.decode(bytesOf(hex)), fields);
        assertEquals(decoder.size, size);
      }
    });
  }
});

Deno.test("HpackDecoder.decode() forgets when it is told to", () => {
  const decoder = new HpackDecoder();
  const custom = EXAMPLES["C.2.1"]?.[0]?.[0] ?? "";
  decoder.decode(bytesOf(custom));
  assertEquals(decoder.decode(bytesOf("be")).length, 1);
  assertEquals(decoder.decode(bytesOf("20 82")), [[":method", "GET"]]);
  assertEquals(decoder.size, 0);
  decoder.decode(bytesOf(custom));
  assertEquals(decoder.size, 0, "there is no room for it");
});

Deno.test("HpackDecoder.decode() refuses what is no block of headers", async (t) => {
  const rows: [name: string, hex: string, problem: string][] = [
    ["number 0", "80", "there is no number 0"],
    ["a number that nothing has", "be", "there is no number 62"],
    ["a name that nothing has", "7e 00", "there is no number 62"],
    ["a name without a value", "00 0161", "cut off"],
    ["a short value", "00 0161 0261", "cut off"],
    ["half of a number", "ff", "cut off"],
    ["a huge number", "ff ffffff ffff7f", "too large"],
    ["a large table", "3f e21f", "4097 is too large"],
    ["Huffman's end", "00 84ffff ffff 00", "an end within"],
    ["a whole byte of padding", "00 821fff 00", "cut off"],
    ["padding of zeros", "00 8118 00", "cut off"],
  ];
  for (const [name, hex, problem] of rows) {
    await t.step(name, () => {
      const error = assertThrows(
        () => new HpackDecoder().decode(bytesOf(hex)),
        Http2Error,
      );
      assertEquals(error.code, ErrorCode.compressionError);
      assertStringIncludes(error.message, problem);
    });
  }
});

Deno.test("encodeInteger() writes the standard's examples", async (t) => {
  // Source: RFC 7541 appendix C.1; the last row is where a byte more begins.
  const rows: [value: number, bits: number, hex: string][] = [
    [10, 5, "0a"],
    [1337, 5, "1f9a0a"],
    [42, 8, "2a"],
    [31, 5, "1f00"],
  ];
  for (const [value, bits, hex] of rows) {
    await t.step(`${value} in ${bits} bits`, () => {
      assertEquals(encodeInteger(value, bits).toHex(), hex);
    });
  }
});

Deno.test("encodeHeaders() writes what can be read, and remembered nowhere", () => {
  const fields: HeaderField[] = [
    [":status", "200"],
    ["empty", ""],
    ["long", "x".repeat(70_000)],
    ["bytes", "\u0000\u00ff"],
  ];
  const decoder = new HpackDecoder();
  assertEquals(decoder.decode(encodeHeaders(fields)), fields);
  assertEquals(decoder.size, 0);
  assertEquals(encodeHeaders([["a", "bc"]]).toHex(), "000161026263");
});
