import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { LINKED_HEAD, LINKED_TAIL } from "../mkdenort/mod.ts";
import { type Chunks, linkChunks } from "./link.ts";
import { eachRow } from "../../tests/_harness/table.ts";

/** Runs a linked script, in which `out` is an array to push to. */
async function run(chunks: Chunks): Promise<unknown[]> {
  const scope = globalThis as { out?: unknown[] };
  const out: unknown[] = scope.out = [];
  (0, eval)(linkChunks(chunks, "main.js"));
  await new Promise((resolve) => setTimeout(resolve));
  delete scope.out;
  return out;
}

Deno.test("linkChunks() runs chunks as modules", async (t) => {
  const rows: [name: string, chunks: Chunks, want: unknown[]][] = [
    ["one chunk", { "main.js": "out.push(1);\n" }, [1]],
    ["a named import, renamed at both ends", {
      "main.js": 'import{a as x,b}from"./c.js";out.push(x,b);',
      "c.js": "var q=1,b=2;export{q as a,b};\n",
    }, [1, 2]],
    ["an import for its effect", {
      "main.js": 'import"./c.js";out.push("main");',
      "c.js": 'out.push("c");',
    }, ["c", "main"]],
    ["a chunk that two import runs once, before both", {
      "main.js": 'import{a}from"./a.js";import{b}from"./b.js";out.push(a+b);',
      "a.js": 'import{n}from"./n.js";var a=n;export{a};',
      "b.js": 'import{n}from"./n.js";var b=n;export{b};',
      "n.js": "out.push(0);var n=21;export{n};",
    }, [0, 42]],
    ["a dynamic import, when it comes to that", {
      "main.js":
        'import("./c.js").then(({a:e})=>out.push(e));out.push("main");',
      "c.js": 'out.push("c");var a=7;export{a};',
      "never.js": "out.push('never');",
    }, ["main", "c", 7]],
    ["identifiers that look like ours", {
      "main.js": "var load=1,lazy=2,$=3,name=4;out.push(load+lazy+$+name);",
    }, [10]],
    ["line ends and comments in texts", {
      "main.js": 'import"./c.js";out.push(`a\n//\r\n*/\u2028\u2029"\\n`);',
      "c.js": "/*\n*/out.push('c')",
    }, ["c", 'a\n//\n*/\u2028\u2029"\n']],
    ["the module to begin with", {
      "main.js": "import.meta.main&&out.push(1);",
    }, [1]],
    ["a module without a directory", {
      "main.js": "out.push(import.meta.dirname===void 0);",
    }, [true]],
    ["a module to begin with that waits", {
      "main.js": 'import{a}from"./c.js";out.push(await a);export{a};',
      "c.js": "var a=Promise.resolve(1);export{a};",
    }, [1]],
    ["strict mode", {
      "main.js": "out.push((function(){return this})()===void 0);",
    }, [true]],
    [
      "an empty chunk",
      { "main.js": 'import"./c.js";out.push(1);', "c.js": "" },
      [1],
    ],
  ];
  await eachRow(
    t,
    rows,
    async ([, chunks, want]) => assertEquals(await run(chunks), want),
  );
});

/** What a linked script does whose comments are read when they are asked for. */
interface Observed {
  /** Its pushed values. */
  readonly out: unknown[];
  /** Ranges of bytes of the comments that it read. */
  readonly ranges: [from: number, to: number][];
  /** The comments. */
  readonly lines: string[];
  /** Texts that V8 got. */
  readonly compiled: string[];
}

/** Runs a linked script without its comments, until it has pushed something so often. */
async function observe(chunks: Chunks, times = 0): Promise<Observed> {
  const script = linkChunks(chunks, "main.js");
  const code = script.slice(0, script.indexOf("\n") + 1);
  assertEquals(code.slice(0, LINKED_HEAD.length), LINKED_HEAD);
  const comments = new TextEncoder().encode(script).subarray(code.length);
  const seen: Observed = { out: [], ranges: [], lines: [], compiled: [] };
  const scope = globalThis as { out?: unknown[]; eval: typeof eval };
  const { eval: compile } = scope;
  scope.out = seen.out;
  scope.eval = (text: string) => {
    seen.compiled.push(text);
    return compile(text);
  };
  try {
    new Function("__read", code + LINKED_TAIL)((from: number, to: number) => {
      const line = new TextDecoder().decode(comments.subarray(from, to));
      seen.ranges.push([from, to]);
      seen.lines.push(line);
      return line;
    });
    do await new Promise((resolve) => setTimeout(resolve)); while (
      seen.out.length < times
    );
  } finally {
    delete scope.out;
    scope.eval = compile;
  }
  return seen;
}

Deno.test("linkChunks() leaves chunks out for who can read them", async () => {
  const { out, lines } = await observe({
    "main.js":
      'import{a}from"./c.js";out.push(a);import("./later.js").then(({d})=>out.push(d));',
    "c.js": "var a=`\r\n\u2028\u2029*/\u00e4`;export{a};",
    "never.js": "out.push('\u00e4');",
    "later.js": "var d=4;export{d};",
  });
  // Without the carriage return, as in any template literal.
  assertEquals(out, ["\n\u2028\u2029*/\u00e4", 4]);
  assertEquals(lines.map((line) => /^\/\/.*\n$/.test(line)), [
    true,
    true,
    true,
  ]);
});

Deno.test("linkChunks() compresses what only command lines need", async () => {
  const { out, lines } = await observe({
    "main.js":
      'import{a}from"./a.js";out.push(a);import("./command-1.js").then(({c})=>out.push(c));',
    "a.js": "var a=`a\n`;export{a};",
    "command-1.js":
      'import{a}from"./a.js";import{b}from"./b.js";var c=a+b;export{c};',
    "b.js": `var b="b${"x".repeat(9000)}";export{b};`,
  }, 2);
  assertEquals(out, ["a\n", `a\nb${"x".repeat(9000)}`]);
  assertEquals(lines.map((line) => /^\/\/[\d,]*;/.test(line)), [
    true,
    true,
    false,
  ]);
});

Deno.test("linkChunks() has V8 compile a chunk with what it imports", async () => {
  const { out, ranges, compiled } = await observe({
    "main.js":
      'import"./z.js";import"./a.js";import("./later.js");out.push("main");',
    "a.js": 'import"./z.js";out.push("a");',
    "b.js": 'out.push("b");',
    "later.js": 'import"./b.js";import"./z.js";out.push("later");',
    "z.js": 'out.push("z");',
  });
  assertEquals(out, ["z", "a", "main", "b", "later"]);
  const texts = compiled.map((text) =>
    [...text.matchAll(/push\("(.*?)"/g)].map(([, name]) => name)
  );
  assertEquals(texts, [["main", "z", "a"], ["later", "b"]]);
  // What is compiled together lies together.
  assertEquals(
    ranges.map(([from]) => from),
    [0, ...ranges.slice(0, -1).map(([, to]) => to)],
  );
});

Deno.test("linkChunks() has V8 compile no long text at once", async () => {
  const long = (name: string): string =>
    `out.push("${name}${"x".repeat(5000)}");`;
  const { out, compiled } = await observe({
    "main.js": `import"./a.js";import"./b.js";${long("main")}`,
    "a.js": `import"./c.js";${long("a")}`,
    "b.js": long("b"),
    "c.js": long("c"),
  });
  assertEquals(out.map((text) => String(text).replace(/x+/, "")), [
    "c",
    "a",
    "b",
    "main",
  ]);
  assertEquals(compiled.map((text) => Math.floor(text.length / 5000)), [2, 2]);
});

Deno.test("linkChunks() refuses what it does not understand", async (t) => {
  const rows: [name: string, chunks: Chunks, text: string][] = [
    ["no entry", { "c.js": "" }, 'Cannot link "main.js"'],
    ["a control character", { "main.js": 'out.push("\x01")' }, "control"],
    ["an unknown chunk", { "main.js": 'import"./c.js";' }, '"c.js", which is'],
    [
      "an unknown chunk, dynamically",
      { "main.js": 'import("./c.js")' },
      '"c.js", which is',
    ],
    [
      "a namespace import",
      { "main.js": 'import*as c from"./c.js";', "c.js": "" },
      '"import*"',
    ],
    [
      "a package",
      { "main.js": 'import{a}from"node:fs";' },
      'it imports "node:fs", which cannot be bundled',
    ],
    [
      "a package behind a chunk, as a whole",
      { "main.js": 'import"./c.js";import*as a from"node:fs";', "c.js": "" },
      'it imports "node:fs", which cannot be bundled',
    ],
    ["import.meta", { "main.js": "f(import.meta.url)" }, '"import.meta"'],
    [
      "import.meta.main of another module",
      { "main.js": 'import"./c.js";', "c.js": "f(import.meta.main)" },
      '"import.meta"',
    ],
    [
      "a declaration that exports",
      { "main.js": "export const a=1;" },
      "export",
    ],
    [
      "await outside of functions",
      { "main.js": 'import"./c.js";', "c.js": "await f();" },
      'chunk "c.js": await',
    ],
    [
      "importing who awaits outside of functions",
      { "main.js": 'await import("./c.js");', "c.js": 'import"./main.js";' },
      'chunk "c.js": "main.js", which it imports, awaits',
    ],
    ["our own names", { "main.js": "var __l=1;" }, '"__l"'],
  ];
  await eachRow(t, rows, ([, chunks, text]) => {
    const error = assertThrows(() => linkChunks(chunks, "main.js"), Error);
    assertStringIncludes(error.message, text);
  });
});

Deno.test("linkChunks() gives the same text for the same chunks in any order", () => {
  const chunks = { "main.js": 'import"./c.js";', "c.js": "1;" };
  const reversed = Object.fromEntries(Object.entries(chunks).reverse());
  assertEquals(linkChunks(chunks, "main.js"), linkChunks(reversed, "main.js"));
});
