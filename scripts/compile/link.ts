/**
 * Joins the chunks of a code-split bundle into one script.
 *
 * An executable holds one script, and V8 looks at all of it before it runs any:
 * some 25 µs for each KiB of code, 5 µs for each KiB of a text literal, and next
 * to nothing for comments. So here a chunk is a comment, which a function's own
 * text leads to, until something imports it. A call pays for the plugin that it
 * calls, and VERSION for none, however many plugins there are.
 *
 * Even so, half a MiB takes 4 ms to read, decode and scan. A runtime that can read
 * parts of the script avoids that: it runs the first line and the tail, where
 * `__read` is a function that returns any bytes of the comments. The stand-in for
 * denort does so.
 *
 * @module
 */

import { describeError } from "../../cni/error.ts";

/** A chunk's text, by its file name. */
export type Chunks = Readonly<Record<string, string>>;

/** `import{a as b}from"./chunk.js";` or `import"./chunk.js";`, as minified. */
const IMPORT = /^import(?:\{([^{}]*)\}from)?"\.\/([^"]+)";/;
/** An import from outside the chunks, such as `node:fs`. */
const FOREIGN_IMPORT = /^import[^;"]*"((?!\.\/)[^"]+)"/;
/** `export{a as b};` at the end. */
const EXPORT = /export\{([^{}]*)\};?$/;
/** Marks the entry module. */
const IS_MAIN = /\bimport\.meta\.main\b/g;
/** The folder of a module, which an executable does not have. */
const DIRNAME = /\bimport\.meta\.dirname\b/g;
/** `import("./chunk.js")`. */
const DYNAMIC_IMPORT = /\bimport\("\.\/([^"]+)"\)/g;
/** How every linked script begins. Its code is in the first line, which leaves a function open for the comments. */
export const LINKED_HEAD = "(()=>{/*chunks*/";
/** How it ends. */
export const LINKED_TAIL = "}})();";
/** Module syntax that must not remain after linking. */
const LEFT_OVER =
  /\bimport\.meta\b|\b__(?:load|lazy)\b|(?:^|[;}])(?:import|export)[*{" ]/;

/**
 * Links chunks as `deno bundle --code-splitting --format esm --minify` makes
 * them.
 *
 * @param entry File name of the chunk to begin with
 * @param together Beginnings of names of chunks that are compiled with all that
 *   they import, as the entry is: each chunk by itself takes 0.1 ms
 * @returns A script without imports
 * @throws {Error} If a chunk is not as expected, or not there
 */
export function linkChunks(
  chunks: Chunks,
  entry: string,
  together: readonly string[] = [],
): string {
  if (!Object.hasOwn(chunks, entry)) {
    throw new Error(`Cannot link "${entry}": there is no such chunk`);
  }
  const groups = groupChunks(chunks, [entry, ...together]);
  const names = [...groups.flat(), ...listOthers(chunks, groups.flat())];
  const sources = names.map((name) => linkChunk(chunks, names, name, entry));
  const first = names.indexOf(entry);
  if (sources[first]?.startsWith("async")) checkNobodyWaits(chunks, entry);
  const starts = [0];
  const grouped = groups.map(({ length }) => {
    const start = starts.at(-1) ?? 0;
    starts.push(start + length);
    return `[${sources.slice(start, start + length)}]`;
  });
  const comments = [...grouped, ...sources.slice(starts.at(-1))]
    .map((line) => `//${formatLine(line)}\n`);
  const encoder = new TextEncoder();
  let end = 0;
  const ends = comments.map((line) => end += encoder.encode(line).length);
  // An imported chunk is a function of how to import others; what it exports is
  // what it returns. It runs once. `at` has where each comment begins, in bytes.
  // The first comments have groups of chunks, which begin with those in `starts`.
  return `${LINKED_HEAD}const at=${JSON.stringify([0, ...ends])},` +
    `starts=${JSON.stringify(starts)},loaded=[],made=[];` +
    "let lines;" +
    'const line=typeof __read==="function"?n=>__read(at[n],at[n+1]):' +
    'n=>(lines??=String(store).split("\\n"))[n+1],' +
    "make=n=>{let g=starts.findLastIndex(s=>s<=n),b=starts[g];" +
    "if(g==starts.length-1)g+=n-b,b=n;" +
    `[].concat((0,eval)(${READ_LINE}))` +
    ".forEach((f,i)=>made[b+i]=f);return made[n]}," +
    "load=n=>loaded[n]??=(made[n]??make(n))" +
    "(load,n=>Promise.resolve().then(()=>load(n)))??{};" +
    `load(${first});function store(){\n${comments.join("")}${LINKED_TAIL}\n`;
}

/** Groups chunks with what they import and no group before has. */
function groupChunks(
  chunks: Chunks,
  beginnings: readonly string[],
): string[][] {
  const rest = new Set(Object.keys(chunks));
  const take = (name: string): string[] => {
    if (!rest.delete(name)) return [];
    return [...listImports(chunks[name] ?? "").flatMap(take), name];
  };
  return beginnings.map((beginning) =>
    listOthers(chunks, []).filter((name) => name.startsWith(beginning))
      .flatMap(take)
  );
}

function listOthers(chunks: Chunks, names: readonly string[]): string[] {
  return Object.keys(chunks).filter((name) => !names.includes(name)).sort();
}

/** Lists the chunks that a chunk imports. */
function listImports(source: string): string[] {
  const imported: string[] = [];
  let body = source.trim();
  for (
    let found;
    (found = IMPORT.exec(body));
    body = body.slice(found[0].length)
  ) imported.push(found[2] ?? "");
  return imported;
}

/** Ends lines, for V8 too. */
const LINE_END = /[\n\r\u2028\u2029]/g;
/** Stand for those in a line, in their order. No code has these characters. */
// deno-lint-ignore no-control-regex
const STAND_INS = /[\x01-\x04]/;
/** Turns line `g` into the text again. */
const READ_LINE = "line(g).slice(2).replace(/[\\x01-\\x04]/g," +
  'c=>"\\n\\r\\u2028\\u2029"[c.charCodeAt()-1])';

/** Writes a text in one line. It is not JSON, where each quote takes a byte more. */
function formatLine(text: string): string {
  if (STAND_INS.test(text)) {
    throw new Error("Cannot link: a chunk has a control character");
  }
  return text.replaceAll(
    LINE_END,
    (end) => String.fromCharCode("\n\r\u2028\u2029".indexOf(end) + 1),
  );
}

/** Others are given what the entry exports, not the promise of it. */
function checkNobodyWaits(chunks: Chunks, entry: string): void {
  for (const [name, text] of Object.entries(chunks)) {
    if (!text.includes(`"./${entry}"`)) continue;
    throw new Error(
      `Cannot link chunk "${name}": "${entry}", which it imports, awaits outside of functions`,
    );
  }
}

/** Turns the text of a module into the text of a function, in which other chunks have numbers. */
function linkChunk(
  chunks: Chunks,
  names: readonly string[],
  name: string,
  entry: string,
): string {
  const isEntry = name === entry;
  const refuse = (why: string): Error =>
    new Error(`Cannot link chunk "${name}": ${why}`);
  const check = (imported: string): number => {
    if (Object.hasOwn(chunks, imported)) return names.indexOf(imported);
    throw refuse(`it imports "${imported}", which is no chunk`);
  };
  let body = (chunks[name] ?? "").trim(), imports = "";
  for (
    let found;
    (found = IMPORT.exec(body));
    body = body.slice(found[0].length)
  ) {
    const [, names, imported = ""] = found;
    const load = `__load(${check(imported)});`;
    imports += names === undefined ? load : `const{${renamed(names)}}=${load}`;
  }
  const foreign = FOREIGN_IMPORT.exec(body);
  if (foreign !== null) {
    throw refuse(`it imports "${foreign[1]}", which cannot be bundled`);
  }
  const exported = EXPORT.exec(body);
  body = body.slice(0, exported?.index);
  body = body.replace(
    DYNAMIC_IMPORT,
    (_, imported: string) => `__LAZY__(${check(imported)})`,
  );
  if (isEntry) body = body.replaceAll(IS_MAIN, "true");
  body = body.replaceAll(DIRNAME, "void 0");
  const leftOver = LEFT_OVER.exec(body);
  if (leftOver !== null) throw refuse(`"${leftOver[0]}" is not understood`);
  body = body.replaceAll("__LAZY__(", "__lazy(");
  const result = exported === null
    ? ""
    : `;return{${renamed(swapped(exported[1] ?? ""))}}`;
  const source = `(__load,__lazy)=>{"use strict";${imports}${body}${result}}`;
  const problem = findSyntaxError(source);
  if (problem === undefined) return source;
  // A module may use `await` where this may not, except the entry module.
  const waiting = `async${source}`;
  if (isEntry && findSyntaxError(waiting) === undefined) return waiting;
  throw refuse(problem);
}

/** Parses an expression, and runs nothing. */
function findSyntaxError(source: string): string | undefined {
  try {
    new Function(`return ${source}`);
    return undefined;
  } catch (error) {
    return describeError(error);
  }
}

/** Turns `a as b` into `a:b`. */
function renamed(names: string): string {
  return names.replaceAll(/\s+as\s+/g, ":");
}

/** Turns `a as b` into `b as a`. */
function swapped(names: string): string {
  return names.replaceAll(/([^,\s]+)\s+as\s+([^,\s]+)/g, "$2 as $1");
}
