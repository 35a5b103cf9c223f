/**
 * Holds the stand-ins and the real `jsr:@std` packages to
 * one table of cases, so that a test means the same with and without jsr.io.
 *
 * Judged by `node:assert`, since `@std/assert` is itself on trial.
 *
 * @module
 */

import nodeAssert from "node:assert/strict";
import nodePath from "node:path/posix";
import project from "../../deno.json" with { type: "json" };
import { isOffline } from "../import_flags.ts";
import * as assertions from "./assert.ts";
import * as argumentParser from "./parse_args.ts";
import * as posix from "./posix.ts";

/** Both sides of the comparison have this shape. */
interface Std {
  readonly assert: typeof assertions;
  readonly parseArgs: typeof argumentParser.parseArgs;
  readonly posix: typeof posix;
}

/** A call and what comes of it: a value, `undefined` for an assertion that holds, or an error's name. */
interface Case {
  readonly name: string;
  readonly call: (std: Std) => unknown;
  readonly want?: unknown;
  readonly throws?: string;
}

const standIns: Std = {
  assert: assertions,
  parseArgs: argumentParser.parseArgs,
  posix,
};

async function importStd(): Promise<Std> {
  // Put together at run time: a literal would be resolved before anything runs.
  const load = (name: keyof typeof project.imports, path = ""): Promise<
    unknown
  > => import(project.imports[name] + path);
  const [assert, cli, path] = await Promise.all([
    load("@std/assert"),
    load("@std/cli", "/parse-args"),
    load("@std/path", "/posix"),
  ]);
  const { parseArgs } = cli as typeof argumentParser;
  return { assert, parseArgs, posix: path } as Std;
}

const offline = await isOffline();

class Loop {
  self: Loop = this;
}
class Secret {
  readonly #value: number;
  constructor(value: number) {
    this.#value = value;
  }
  get value(): number {
    return this.#value;
  }
}
class Point {
  readonly x: number;
  constructor(x: number) {
    this.x = x;
  }
}

function viewOf(byte: number): DataView {
  return new DataView(Uint8Array.of(byte).buffer);
}

/** Every pair is tried with `assertEquals` and `assertNotEquals`, in both orders. */
const equality: [name: string, left: unknown, right: unknown, same: boolean][] =
  [
    ["numbers", 1, 1, true],
    ["different numbers", 1, 2, false],
    ["number and text", 1, "1", false],
    ["NaN", NaN, NaN, true],
    ["zeros", 0, -0, true],
    ["null and undefined", null, undefined, false],
    ["bigints", 1n, 1n, true],
    ["nested objects", { a: [{ b: 1 }] }, { a: [{ b: 1 }] }, true],
    ["order of keys", { a: 1, b: 2 }, { b: 2, a: 1 }, true],
    ["extra key", { a: 1 }, { a: 1, b: 2 }, false],
    ["undefined and missing key", { a: undefined }, {}, false],
    ["undefined and other key", { a: undefined }, { b: undefined }, false],
    ["order of items", [1, 2], [2, 1], false],
    ["length", [1], [1, 2], false],
    ["array and object", [], {}, false],
    ["no prototype", Object.create(null), {}, true],
    ["classes", new Point(1), new Point(1), true],
    ["getters of private fields", new Secret(1), new Secret(1), true],
    ["other private fields", new Secret(1), new Secret(2), false],
    ["errors", new Error("a"), new Error("b"), false],
    ["buffers", Uint8Array.of(1).buffer, Uint8Array.of(1).buffer, true],
    ["other buffers", Uint8Array.of(1).buffer, Uint8Array.of(2).buffer, false],
    ["views", viewOf(1), viewOf(2), false],
    ["class and plain object", new Point(1), { x: 1 }, false],
    ["dates", new Date(5), new Date(5), true],
    ["different dates", new Date(5), new Date(6), false],
    ["expressions", /a/g, /a/g, true],
    ["flags", /a/g, /a/, false],
    ["addresses", new URL("http://a/"), new URL("http://b/"), false],
    ["bytes", Uint8Array.of(1, 2), Uint8Array.of(1, 2), true],
    ["different bytes", Uint8Array.of(1, 2), Uint8Array.of(1, 3), false],
    ["bytes and array", Uint8Array.of(1), [1], false],
    ["sets", new Set([1, 2]), new Set([2, 1]), true],
    ["sets of objects", new Set([{ a: 1 }]), new Set([{ a: 1 }]), true],
    ["different sets", new Set([1]), new Set([2]), false],
    ["maps", new Map([["a", { b: 1 }]]), new Map([["a", { b: 1 }]]), true],
    ["map keys", new Map([[{ a: 1 }, 2]]), new Map([[{ a: 1 }, 2]]), true],
    ["map values", new Map([["a", 1]]), new Map([["a", 2]]), false],
    ["map and set", new Map(), new Set(), false],
    ["cycles", new Loop(), new Loop(), true],
    ["symbol keys", { [Symbol.iterator]: 1 }, { [Symbol.iterator]: 2 }, false],
    ["functions", () => 1, () => 1, false],
  ];

function* equalityCases(): Generator<Case> {
  const failed = { throws: "AssertionError" };
  for (const [label, left, right, same] of equality) {
    for (const [a, b] of [[left, right], [right, left]]) {
      yield {
        name: `assertEquals: ${label}`,
        call: ({ assert }) => assert.assertEquals(a, b),
        ...(same ? {} : failed),
      };
      yield {
        name: `assertNotEquals: ${label}`,
        call: ({ assert }) => assert.assertNotEquals(a, b),
        ...(same ? failed : {}),
      };
    }
  }
}

const throwTypeError = (): never => {
  throw new TypeError("bad kind of thing");
};
const rejectWithTypeError = (): Promise<never> =>
  Promise.reject(new TypeError("bad kind of thing"));
const resolveToOne = (): Promise<number> => Promise.resolve(1);

/** A name, a call, and what comes of it: a value, or {@linkcode FAILS}. */
type CaseRow = readonly [
  name: string,
  call: (std: Std) => unknown,
  want?: unknown,
];

/** Stands for an assertion that fails. */
const FAILS = Symbol("fails");

function toCases(rows: readonly CaseRow[]): Case[] {
  return rows.map(([name, call, want]) =>
    want === FAILS
      ? { name, call, throws: "AssertionError" }
      : { name, call, want }
  );
}

const throwText = (): never => {
  throw "text";
};

const assertionCases = toCases([
  ["assert: truthy", ({ assert: a }) => call(a.assert, "x")],
  ["assert: falsy", ({ assert: a }) => call(a.assert, ""), FAILS],
  ["fail", ({ assert: a }) => a.fail("no"), FAILS],
  [
    "assertStrictEquals: same object",
    ({ assert: a }) => call(a.assertStrictEquals, equality, equality),
  ],
  [
    "assertStrictEquals: equal objects",
    ({ assert: a }) => call(a.assertStrictEquals, {}, {}),
    FAILS,
  ],
  [
    "assertStrictEquals: zeros",
    ({ assert: a }) => call(a.assertStrictEquals, 0, -0),
    FAILS,
  ],
  ["assertExists: zero", ({ assert: a }) => call(a.assertExists, 0)],
  ["assertExists: null", ({ assert: a }) => call(a.assertExists, null), FAILS],
  [
    "assertInstanceOf: subclass",
    ({ assert: a }) => call(a.assertInstanceOf, new TypeError(), Error),
  ],
  [
    "assertInstanceOf: other class",
    ({ assert: a }) => call(a.assertInstanceOf, new Error(), TypeError),
    FAILS,
  ],
  [
    "assertInstanceOf: null",
    ({ assert: a }) => call(a.assertInstanceOf, null, Error),
    FAILS,
  ],
  [
    "assertStringIncludes: inside",
    ({ assert: a }) => a.assertStringIncludes("abc", "b"),
  ],
  [
    "assertStringIncludes: outside",
    ({ assert: a }) => a.assertStringIncludes("abc", "d"),
    FAILS,
  ],
  ["assertMatch: match", ({ assert: a }) => a.assertMatch("abc", /^a.c$/)],
  [
    "assertMatch: no match",
    ({ assert: a }) => a.assertMatch("abc", /^b/),
    FAILS,
  ],
  [
    "assertThrows: returns what is thrown",
    ({ assert: a }) => String(a.assertThrows(throwTypeError)),
    "TypeError: bad kind of thing",
  ],
  [
    "assertThrows: accepts a base class and part of the message",
    ({ assert: a }) => a.assertThrows(throwTypeError, Error, "kind of").message,
    "bad kind of thing",
  ],
  [
    "assertThrows: other class",
    ({ assert: a }) => a.assertThrows(throwTypeError, RangeError),
    FAILS,
  ],
  [
    "assertThrows: other message",
    ({ assert: a }) => a.assertThrows(throwTypeError, TypeError, "good"),
    FAILS,
  ],
  [
    "assertThrows: nothing thrown",
    ({ assert: a }) => a.assertThrows(() => 1),
    FAILS,
  ],
  [
    "assertThrows: not an error",
    ({ assert: a }) => a.assertThrows(throwText, Error),
    FAILS,
  ],
  [
    "assertThrows: anything, without a class",
    ({ assert: a }) => a.assertThrows(throwText, "with a message"),
    "text",
  ],
  [
    "assertRejects: returns the reason",
    async ({ assert: a }) =>
      (await a.assertRejects(rejectWithTypeError, TypeError, "kind")).message,
    "bad kind of thing",
  ],
  [
    "assertRejects: other class",
    ({ assert: a }) => a.assertRejects(rejectWithTypeError, RangeError),
    FAILS,
  ],
  [
    "assertRejects: resolved",
    ({ assert: a }) => a.assertRejects(resolveToOne),
    FAILS,
  ],
  [
    "assertRejects: thrown before there is a promise",
    ({ assert: a }) => a.assertRejects(throwTypeError, TypeError),
    FAILS,
  ],
]);

/** Calls a function whose type stands in the way: TypeScript lets no assertion be called through a parameter. */
function call(
  assertion: (...args: never[]) => unknown,
  ...args: unknown[]
): unknown {
  return assertion(...args as never[]);
}

/** Arguments as in a shell, options, and what comes of them. */
const parsed: [
  name: string,
  args: string,
  options: argumentParser.ParseOptions,
  want: unknown,
][] = [
  ["nothing", "", {}, { _: [] }],
  [
    "undeclared flags take a value, numbers become numbers",
    "--a 1 --b=x -c --d e 0x10 -",
    {},
    { _: [16, "-"], a: 1, b: "x", c: true, d: "e" },
  ],
  [
    "declared kinds",
    "--each a --out 007 --n 7",
    { boolean: ["each", "help"], string: ["out", "target"] },
    { _: ["a"], each: true, help: false, out: "007", n: 7 },
  ],
  [
    "booleans written out",
    "--a=false --b false --c true x",
    { boolean: ["a", "b", "c"] },
    { _: ["x"], a: false, b: false, c: true },
  ],
  [
    "text without a value",
    "--a --b -cd",
    { string: ["a", "c"] },
    { _: [], a: "", b: true, c: "", d: true },
  ],
  [
    "the last one wins, unless collected",
    "--a=1 --a=2 --b=1 --b 2",
    { string: ["a", "b", "c"], collect: ["b", "c"] },
    { _: [], a: "2", b: ["1", "2"], c: [] },
  ],
  [
    "groups of letters and attached values",
    "-ab c -n5 -xy/z -e=f -g -",
    {},
    { _: [], a: true, b: "c", n: 5, x: true, y: "/z", e: "f", g: "-" },
  ],
  ["--no- is part of the name", "--no-lock x", {}, { _: [], "no-lock": "x" }],
  ["after --", "a -- --b 1", {}, { _: ["a", "--b", "1"] }],
  [
    "stopEarly",
    "--a add --b 1",
    { boolean: ["a"], stopEarly: true },
    { _: ["add", "--b", "1"], a: true },
  ],
];

const argumentCases = toCases([
  ...parsed.map(([name, args, options, want]): CaseRow => [
    `parseArgs: ${name}`,
    ({ parseArgs }) => parseArgs(args.split(" ").filter(Boolean), options),
    want,
  ]),
  [
    "parseArgs: unknown drops what it refuses and learns its value",
    ({ parseArgs }) => {
      const seen: unknown[] = [];
      const unknown = (...args: unknown[]): boolean => seen.push(args) > 2;
      const args = ["--a=1", "b", "--c", "--d"];
      return [parseArgs(args, { unknown, boolean: ["d"] }), seen];
    },
    [
      { _: [], c: true, d: true },
      [["--a=1", "a", "1"], ["b"], ["--c", "c", true]],
    ],
  ],
]);

const paths: [keyof typeof posix, string[], unknown][] = [
  ["join", ["a", "../..", "", "/b/"], "../b/"],
  ["join", ["/a", "/b"], "/a/b"],
  ["join", ["", ""], "."],
  ["normalize", ["/../a/./b//c/.."], "/a/b"],
  ["normalize", ["../../a/.."], "../.."],
  ["normalize", ["./"], "./"],
  ["resolve", ["/a", "b", "../c/"], "/a/c"],
  ["resolve", ["/a", "/b"], "/b"],
  ["resolve", ["x"], `${Deno.cwd()}/x`],
  ["dirname", ["/a/b/"], "/a"],
  ["dirname", ["a//b"], "a"],
  ["dirname", ["/a"], "/"],
  ["dirname", ["a"], "."],
  ["basename", ["/opt/cni/bin/ptp"], "ptp"],
  ["basename", ["/a/b/"], "b"],
  ["basename", ["/"], "/"],
  ["basename", ["a.conf", ".conf"], "a"],
  ["basename", [".conf", ".conf"], ".conf"],
  ["extname", ["a/b.tar.gz"], ".gz"],
  ["extname", [".bashrc"], ""],
  ["extname", ["a."], "."],
  ["extname", ["a.b/c"], ""],
  ["isAbsolute", ["/a"], true],
  ["isAbsolute", ["a/b"], false],
];

const pathCases: Case[] = paths.map(([name, args, want]) => ({
  name: `${name}(${args.map((arg) => JSON.stringify(arg)).join(", ")})`,
  call: (std) => call(std.posix[name], ...args),
  want,
}));

const cases: Case[] = [
  ...equalityCases(),
  ...assertionCases,
  ...argumentCases,
  ...pathCases,
];

async function runCase({ call, want, throws }: Case, std: Std): Promise<void> {
  if (throws === undefined) {
    nodeAssert.deepEqual(await call(std), want);
    return;
  }
  let outcome = "no error";
  try {
    await call(std);
  } catch (error) {
    outcome = error instanceof Error ? error.name : String(error);
  }
  nodeAssert.equal(outcome, throws);
}

Deno.test("the stand-ins do what the table says", async (t) => {
  for (const row of cases) {
    await t.step(row.name, () => runCase(row, standIns));
  }
});

Deno.test({
  name: offline
    ? "jsr:@std does what the table says (skipped: jsr.io is out of reach)"
    : "jsr:@std does what the table says",
  ignore: offline,
  fn: async (t) => {
    const std = await importStd();
    for (const row of cases) await t.step(row.name, () => runCase(row, std));
  },
});

Deno.test("the stand-in for posix agrees with node:path on random paths", () => {
  const parts = ["", "/", "//", ".", "..", "a", "b.c", ".d", "e.", "./", "/a"];
  const pick = (): string =>
    parts[Math.floor(Math.random() * parts.length)] ?? "";
  for (let i = 0; i < 5000; i++) {
    const list = Array.from({ length: 1 + i % 5 }, pick);
    const path = list.join("/");
    const label = JSON.stringify(list);
    nodeAssert.equal(posix.join(...list), nodePath.join(...list), label);
    nodeAssert.equal(posix.resolve(...list), nodePath.resolve(...list), label);
    nodeAssert.equal(posix.normalize(path), nodePath.normalize(path), label);
    nodeAssert.equal(posix.extname(path), nodePath.extname(path), label);
  }
});

Deno.test("assertEquals() of the stand-in shows both values line by line", () => {
  const error = assertions.assertThrows(
    () =>
      assertions.assertEquals({ a: 1, b: [1, 2] }, { a: 1, b: [1, 3] }, "m"),
    assertions.AssertionError,
  );
  nodeAssert.equal(
    error.message,
    [
      "Values are not equal: m",
      "",
      "    [Diff] Actual / Expected",
      "",
      "    {",
      "      a: 1,",
      "      b: [",
      "        1,",
      "-       2,",
      "+       3,",
      "      ],",
      "    }",
      "",
    ].join("\n"),
  );
});
