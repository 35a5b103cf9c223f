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
import { isOffline } from "../net.ts";
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

const assertionCases: Case[] = [
  { name: "assert: truthy", call: ({ assert: a }) => call(a.assert, "x") },
  {
    name: "assert: falsy",
    call: ({ assert: a }) => call(a.assert, ""),
    throws: "AssertionError",
  },
  {
    name: "fail",
    call: ({ assert: a }) => a.fail("no"),
    throws: "AssertionError",
  },
  {
    name: "assertStrictEquals: same object",
    call: ({ assert: a }) => call(a.assertStrictEquals, equality, equality),
  },
  {
    name: "assertStrictEquals: equal objects",
    call: ({ assert: a }) => call(a.assertStrictEquals, {}, {}),
    throws: "AssertionError",
  },
  {
    name: "assertStrictEquals: zeros",
    call: ({ assert: a }) => call(a.assertStrictEquals, 0, -0),
    throws: "AssertionError",
  },
  {
    name: "assertExists: zero",
    call: ({ assert: a }) => call(a.assertExists, 0),
  },
  {
    name: "assertExists: null",
    call: ({ assert: a }) => call(a.assertExists, null),
    throws: "AssertionError",
  },
  {
    name: "assertInstanceOf: subclass",
    call: ({ assert: a }) => call(a.assertInstanceOf, new TypeError(), Error),
  },
  {
    name: "assertInstanceOf: other class",
    call: ({ assert: a }) => call(a.assertInstanceOf, new Error(), TypeError),
    throws: "AssertionError",
  },
  {
    name: "assertInstanceOf: null",
    call: ({ assert: a }) => call(a.assertInstanceOf, null, Error),
    throws: "AssertionError",
  },
  {
    name: "assertStringIncludes: inside",
    call: ({ assert: a }) => a.assertStringIncludes("abc", "b"),
  },
  {
    name: "assertStringIncludes: outside",
    call: ({ assert: a }) => a.assertStringIncludes("abc", "d"),
    throws: "AssertionError",
  },
  {
    name: "assertMatch: match",
    call: ({ assert: a }) => a.assertMatch("abc", /^a.c$/),
  },
  {
    name: "assertMatch: no match",
    call: ({ assert: a }) => a.assertMatch("abc", /^b/),
    throws: "AssertionError",
  },
  {
    name: "assertThrows: returns what is thrown",
    call: ({ assert: a }) => String(a.assertThrows(throwTypeError)),
    want: "TypeError: bad kind of thing",
  },
  {
    name: "assertThrows: accepts a base class and part of the message",
    call: ({ assert: a }) =>
      a.assertThrows(throwTypeError, Error, "kind of").message,
    want: "bad kind of thing",
  },
  {
    name: "assertThrows: other class",
    call: ({ assert: a }) => a.assertThrows(throwTypeError, RangeError),
    throws: "AssertionError",
  },
  {
    name: "assertThrows: other message",
    call: ({ assert: a }) => a.assertThrows(throwTypeError, TypeError, "good"),
    throws: "AssertionError",
  },
  {
    name: "assertThrows: nothing thrown",
    call: ({ assert: a }) => a.assertThrows(() => 1),
    throws: "AssertionError",
  },
  {
    name: "assertThrows: not an error",
    call: ({ assert: a }) =>
      a.assertThrows(() => {
        throw "text";
      }, Error),
    throws: "AssertionError",
  },
  {
    name: "assertThrows: anything, without a class",
    call: ({ assert: a }) =>
      a.assertThrows(() => {
        throw "text";
      }, "with a message"),
    want: "text",
  },
  {
    name: "assertRejects: returns the reason",
    call: async ({ assert: a }) =>
      (await a.assertRejects(rejectWithTypeError, TypeError, "kind")).message,
    want: "bad kind of thing",
  },
  {
    name: "assertRejects: other class",
    call: ({ assert: a }) => a.assertRejects(rejectWithTypeError, RangeError),
    throws: "AssertionError",
  },
  {
    name: "assertRejects: resolved",
    call: ({ assert: a }) => a.assertRejects(resolveToOne),
    throws: "AssertionError",
  },
  {
    name: "assertRejects: thrown before there is a promise",
    call: ({ assert: a }) => a.assertRejects(throwTypeError, TypeError),
    throws: "AssertionError",
  },
];

/** Calls a function whose type stands in the way: TypeScript lets no assertion be called through a parameter. */
function call(
  assertion: (...args: never[]) => unknown,
  ...args: unknown[]
): unknown {
  return assertion(...args as never[]);
}

const argumentCases: Case[] = [
  {
    name: "parseArgs: nothing",
    call: ({ parseArgs }) => parseArgs([]),
    want: { _: [] },
  },
  {
    name: "parseArgs: undeclared flags take a value, numbers become numbers",
    call: ({ parseArgs }) =>
      parseArgs(["--a", "1", "--b=x", "-c", "--d", "e", "0x10", "-"]),
    want: { _: [16, "-"], a: 1, b: "x", c: true, d: "e" },
  },
  {
    name: "parseArgs: declared kinds",
    call: ({ parseArgs }) =>
      parseArgs(["--each", "a", "--out", "007", "--n", "7"], {
        boolean: ["each", "help"],
        string: ["out", "target"],
      }),
    want: { _: ["a"], each: true, help: false, out: "007", n: 7 },
  },
  {
    name: "parseArgs: booleans written out",
    call: ({ parseArgs }) =>
      parseArgs(["--a=false", "--b", "false", "--c", "true", "x"], {
        boolean: ["a", "b", "c"],
      }),
    want: { _: ["x"], a: false, b: false, c: true },
  },
  {
    name: "parseArgs: text without a value",
    call: ({ parseArgs }) =>
      parseArgs(["--a", "--b", "-cd"], { string: ["a", "c"] }),
    want: { _: [], a: "", b: true, c: "", d: true },
  },
  {
    name: "parseArgs: the last one wins, unless collected",
    call: ({ parseArgs }) =>
      parseArgs(["--a=1", "--a=2", "--b=1", "--b", "2"], {
        string: ["a", "b", "c"],
        collect: ["b", "c"],
      }),
    want: { _: [], a: "2", b: ["1", "2"], c: [] },
  },
  {
    name: "parseArgs: groups of letters and attached values",
    call: ({ parseArgs }) =>
      parseArgs(["-ab", "c", "-n5", "-xy/z", "-e=f", "-g", "-"]),
    want: {
      _: [],
      a: true,
      b: "c",
      n: 5,
      x: true,
      y: "/z",
      e: "f",
      g: "-",
    },
  },
  {
    name: "parseArgs: --no- is part of the name",
    call: ({ parseArgs }) => parseArgs(["--no-lock", "x"]),
    want: { _: [], "no-lock": "x" },
  },
  {
    name: "parseArgs: after --",
    call: ({ parseArgs }) => parseArgs(["a", "--", "--b", "1"]),
    want: { _: ["a", "--b", "1"] },
  },
  {
    name: "parseArgs: stopEarly",
    call: ({ parseArgs }) =>
      parseArgs(["--a", "add", "--b", "1"], {
        boolean: ["a"],
        stopEarly: true,
      }),
    want: { _: ["add", "--b", "1"], a: true },
  },
  {
    name: "parseArgs: unknown drops what it refuses and learns its value",
    call: ({ parseArgs }) => {
      const seen: unknown[] = [];
      const unknown = (...args: unknown[]): boolean => seen.push(args) > 2;
      const args = ["--a=1", "b", "--c", "--d"];
      return [parseArgs(args, { unknown, boolean: ["d"] }), seen];
    },
    want: [
      { _: [], c: true, d: true },
      [["--a=1", "a", "1"], ["b"], ["--c", "c", true]],
    ],
  },
];

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
