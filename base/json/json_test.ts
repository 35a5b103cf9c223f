import {
  assert,
  assertEquals,
  assertStrictEquals,
  assertThrows,
} from "@std/assert";
import * as z from "zod/mini";
import { CniError, ErrorCode } from "../error.ts";
import {
  decode,
  decodeLeniently,
  findValue,
  foldKeys,
  isObject,
  type JsonValue,
  objectOf,
  omitAbsent,
  once,
  parseJson,
  sortKeys,
} from "./json.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

const utf8 = new TextEncoder();

Deno.test("parseJson() reads bytes and text", () => {
  assertEquals(parseJson(utf8.encode(` {"name":"ü"}\n`)), { name: "ü" });
  assertEquals(parseJson(`[1500.0, null]`), [1500, null]);
});

function nested(open: string, close: string, depth: number): string {
  return `${open.repeat(depth)}1${close.repeat(depth)}`;
}

testRows("parseJson() reads nested values that sortKeys() can walk", [
  ["lists", nested("[", "]", 1000)],
  ["objects", nested('{"a":', "}", 1000)],
  ["many brackets on few levels", `[${"[],{},".repeat(5000)}0]`],
  ["brackets in a text", JSON.stringify("[{".repeat(5000))],
], ([, document]: [string, string]) => {
  const value = parseJson(document) as JsonValue;
  assertEquals(JSON.stringify(sortKeys(value)), document);
});

testRows("parseJson() tells what is wrong, and where", [
  ["nothing", new Uint8Array(), "it is empty"],
  ["white space", " \n", "it is empty"],
  ["a document cut short", `{"name":`, "unexpected end at line 1, column 9"],
  ["trailing text", "{} x", "line 1, column 4"],
  ["a comma too many", `{"a":1,}`, "line 1, column 8"],
  ["a wrong word", `{"mtu": tru}`, "line 1, column 9"],
  ["a byte order mark", utf8.encode("\ufeff{}"), "line 1, column 1"],
  ["lists, too deep", nested("[", "]", 1001), "more than 1000 levels deep"],
  ["objects, too deep", nested('{"a":', "}", 9000), "1000 levels deep"],
  ["a list, far too deep", nested("[", "]", 2_000_000), "1000 levels deep"],
  ["Latin-1", Uint8Array.of(0x22, 0xfc, 0x22), "it is not UTF-8"],
], ([, document, problem]: [string, Uint8Array | string, string]) => {
  const error = assertThrows(
    () => parseJson(document, "network config"),
    CniError,
    "Cannot parse network config: ",
  );
  assertEquals(error.code, ErrorCode.DecodingFailure);
  assert(error.message.includes(problem), error.message);
});

const text = z.optional(z.string());
const shape = z.looseObject({ name: z.optional(z.string()), bandWidth: text });

testRows(
  "foldKeys() spells keys as the schema does",
  [
    ["another case", shape, { NAME: "a", bandwidth: "b" }, {
      name: "a",
      bandWidth: "b",
    }],
    ["the Kelvin sign counts as k", z.looseObject({ key: text }), {
      "\u212aey": "a",
    }, { key: "a" }],
    ["the long s counts as s", z.looseObject({ mask: text }), {
      "ma\u017fk": "a",
    }, { mask: "a" }],
    ["unknown keys and what is in them stay", shape, { Mtu: { Name: null } }, {
      Mtu: { Name: null },
    }],
    ["the last spelling wins", shape, { name: "a", Name: "b" }, { name: "b" }],
    [
      "a key known to the letter is not another's",
      z.looseObject({ ip: text, IP: text }),
      { IP: "upper", ip: "lower", Ip: "last" },
      { IP: "upper", ip: "last" },
    ],
    [
      "of two keys of a schema the first is meant",
      z.looseObject({ ip: text, IP: text }),
      { Ip: "a", iP: "b" },
      { ip: "b" },
    ],
    ["what another schema calls it is nothing", z.looseObject({ NAME: text }), {
      name: "a",
      Bandwidth: "b",
    }, { NAME: "a", Bandwidth: "b" }],
    ["arrays", z.array(shape), [{ Name: "a" }], [{ name: "a" }]],
    ["records keep their keys", z.record(z.string(), shape), {
      Eth0: { Name: "a" },
    }, { Eth0: { name: "a" } }],
    [
      "optional, nullable, default, prefault, readonly and pipe",
      z.looseObject({
        ipam: z.optional(z.nullable(z._default(
          z.prefault(
            z.readonly(z.pipe(shape, z.transform(String))),
            {},
          ),
          "",
        ))),
      }),
      { IPAM: { Name: "a" } },
      { ipam: { name: "a" } },
    ],
    [
      "every option of a union",
      z.union([z.string(), z.array(shape), shape]),
      { Name: "a" },
      { name: "a" },
    ],
    ["another type is left to the schema", shape, ["Name"], ["Name"]],
    ["an array where a record should be", z.record(z.string(), shape), [1], [
      1,
    ]],
  ],
  ([, schema, value, expected]: [string, z.core.$ZodType, unknown, unknown]) =>
    assertEquals(foldKeys(schema, value), expected),
);

Deno.test("foldKeys() drops a null whose key may be absent", async (t) => {
  const rows: [string, z.core.$ZodType, unknown][] = [
    ["optional", z.optional(z.int()), {}],
    ["default", z._default(z.int(), 1), {}],
    [
      "optional behind a pipe",
      z.pipe(z.optional(z.int()), z.transform(String)),
      {},
    ],
    ["required", z.int(), { mtu: null }],
    ["nullable", z.nullable(z.int()), { mtu: null }],
  ];
  await eachRow(t, rows, ([, mtu, expected]) => {
    const schema = z.looseObject({ mtu });
    assertEquals(foldKeys(schema, { mtu: null }), expected);
  });
  await t.step("an earlier spelling keeps its value", () => {
    const value = { name: "a", NAME: null };
    assertEquals(foldKeys(shape, value), { name: "a" });
  });
});

testRows<[Record<string, string | null>, string | undefined]>(
  "findValue() takes the last spelling that is not null, as foldKeys() does",
  [
    [{ name: "a", NAME: "b" }, "b"],
    [{ NAME: "b", name: "a" }, "a"],
    [{ name: "a", NAME: null }, "a"],
    [{ name: null }, undefined],
    [{}, undefined],
  ],
  ([value, expected]) => {
    assertEquals(findValue(value, "name"), expected);
    const { name } = foldKeys(
      z.looseObject({ name: z.optional(text) }),
      value,
    ) as { name?: string };
    assertEquals(name, expected);
  },
  ([value]) => JSON.stringify(value),
);

Deno.test("decode() lets no document touch a prototype", () => {
  const value = parseJson(
    `{"name":"a","__proto__":{"bandWidth":"b"},"constructor":1,"x":{"__proto__":2}}`,
  );
  const decoded = decode(shape, value, "config");
  assertEquals(Object.getPrototypeOf(decoded), Object.prototype);
  assertEquals(Object.keys(decoded), ["name", "constructor", "x"]);
  assertEquals(decoded.bandWidth, undefined);
});

Deno.test("decode() keeps unknown keys and leaves absent ones out", () => {
  const config = decode(
    shape,
    { Name: "a", bandWidth: null, x: [1] },
    "config",
  );
  assertEquals(config, { name: "a", x: [1] });
});

testRows("decode() says what it expected and what it got", [
  [z.string(), 5, "expected a string, got a number"],
  [z.string(), null, "expected a string, got null"],
  [z.array(z.string()), {}, "expected an array, got an object"],
  [shape, [], "expected an object, got an array"],
  [
    z.record(z.string(), z.boolean()),
    true,
    "expected an object, got a boolean",
  ],
  [z.int(), "1500", "expected a number, got a string"],
  [z.int(), 1.5, "expected an integer, got 1.5"],
  [
    z.int(),
    JSON.parse("1e999"),
    "expected a number, got a number out of range",
  ],
  [
    z.number(),
    JSON.parse("-1e999"),
    "expected a number, got a number out of range",
  ],
  [
    z.enum(["tcp", "udp"]),
    JSON.parse("1e999"),
    `expected "tcp" or "udp", got a number out of range`,
  ],
  [
    z.int(),
    2 ** 63,
    "expected at most 9007199254740991, got 9223372036854776000",
  ],
  [z.number().check(z.gte(0)), -1, "expected at least 0, got -1"],
  [z.number().check(z.positive()), 0, "expected more than 0, got 0"],
  [z.number().check(z.lt(32)), 32, "expected less than 32, got 32"],
  [
    z.string().check(z.minLength(1)),
    "",
    "expected a length of at least 1, got 0",
  ],
  [
    z.array(z.int()).check(z.maxLength(1)),
    [1, 2],
    "expected a length of at most 1, got 2",
  ],
  [z.enum(["tcp", "udp"]), "icmp", `expected "tcp" or "udp", got "icmp"`],
  [z.literal(true), "x", `expected a boolean, got "x"`],
  [z.string().check(z.regex(/^a+$/)), "b", `expected /^a+$/, got "b"`],
  [
    z.union([z.string(), z.array(z.string())]),
    4,
    "expected a string, got a number, or expected an array, got a number",
  ],
  [z.strictObject({}), { mtu: 1 }, `unknown key "mtu"`],
  [z.string().check(z.refine(() => false)), "x", "not a valid value"],
  [
    z.string().check(z.refine(() => false, { error: "too odd" })),
    "x",
    "too odd",
  ],
], ([schema, value, problem]: [z.core.$ZodType, unknown, string]) => {
  const error = assertThrows(() => decode(schema, value, "it"), CniError);
  assertEquals(error.message, `Cannot decode it: ${problem}`);
  assertEquals(error.code, ErrorCode.InvalidNetworkConfig);
  assertEquals(error.details, "");
}, ([, , problem]) => problem);

Deno.test("decode() names the place of each problem", () => {
  const schema = z.looseObject({
    type: z.string(),
    ipam: z.looseObject({
      ranges: z.array(z.array(z.looseObject({ subnet: z.string() }))),
    }),
    "cni.dev/x": z.int(),
  });
  const value = { ipam: { Ranges: [[{}, { subnet: 1 }]] }, "cni.dev/x": 1 };
  const error = assertThrows(
    () => decode(schema, value, "network configuration", 100),
    CniError,
  );
  assertEquals(error.code, 100);
  assertEquals(
    error.message,
    "Cannot decode network configuration: type: missing",
  );
  assertEquals(
    error.details,
    "type: missing; ipam.ranges[0][0].subnet: missing; " +
      "ipam.ranges[0][1].subnet: expected a string, got a number",
  );
});

Deno.test("decodeLeniently() does without the keys that are wrong", async (t) => {
  const schema = z.looseObject({
    name: z.string(),
    ipam: z.optional(z.looseObject({ type: text, mtu: z.optional(z.int()) })),
    ranges: z.optional(z.array(z.int())),
  });
  await t.step("and tells which", () => {
    const value = { name: "a", IPAM: { type: "b", MTU: "x" }, ranges: [1, ""] };
    const dropped: string[] = [];
    const decoded = decodeLeniently(schema, value, "it", (problem) => {
      dropped.push(problem);
    });
    assertEquals(decoded, { name: "a", ipam: { type: "b" } });
    assertEquals(dropped, [
      "ipam.mtu: expected a number, got a string",
      "ranges[1]: expected a number, got a string",
    ]);
    assertEquals(value.ranges, [1, ""]);
  });
  await t.step("however deep the others are", () => {
    const deep = JSON.parse(`${"[".repeat(99_999)}${"]".repeat(99_999)}`);
    const value = { name: "a", ranges: deep, x: deep };
    const decoded = decodeLeniently(schema, value, "it", () => {});
    assertEquals(decoded.name, "a");
    assert(decoded["x"] === deep);
  });
  await t.step("unless one of them is required", () => {
    assertThrows(
      () => decodeLeniently(schema, { name: 1 }, "it", () => {}),
      CniError,
      "Cannot decode it: name: missing",
    );
  });
});

Deno.test("isObject() and objectOf() take objects only", async (t) => {
  const rows: [name: string, value: JsonValue | undefined][] = [
    ["nothing", undefined],
    ["null", null],
    ["a text", "a"],
    ["a number", 0],
    ["an array", [{ a: 1 }]],
  ];
  await eachRow(t, rows, ([, value]) => {
    assertEquals(isObject(value), false);
    assertEquals(objectOf(value), {});
  });
  await t.step("an object", () => {
    const value = { a: 1 };
    assert(isObject(value));
    assert(objectOf(value) === value);
  });
});

Deno.test("omitAbsent() drops what is undefined and nothing else", () => {
  const fields = { a: undefined, b: 0, c: "", d: false, e: null };
  assertEquals(Object.keys(omitAbsent(fields)), ["b", "c", "d", "e"]);
});

Deno.test("sortKeys() sorts at every depth, but not arrays", () => {
  const value: JsonValue = { b: [{ d: 1, c: 2 }, 0], a: { f: null, e: "x" } };
  assertEquals(
    JSON.stringify(sortKeys(value)),
    `{"a":{"e":"x","f":null},"b":[{"c":2,"d":1},0]}`,
  );
});

Deno.test("once() builds a value once", () => {
  const build = once(() => ({}));
  assertStrictEquals(build(), build());
});
