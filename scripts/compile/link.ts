/**
 * Joins the chunks of a code-split bundle into one script.
 *
 * Reason: an executable holds one script, and V8 looks at all of it before it runs
 * any: some 25 µs for each KiB of code, 5 µs for each KiB of a text literal, and
 * next to nothing for comments. So here a chunk is a comment, which a function's own
 * text leads to, until something imports it. A call pays for the plugin that it
 * calls, and VERSION for none, however many plugins there are.
 * Gain: VERSION takes 18 ms of CPU time instead of 150.
 * Off: `--no-link`; the script is then one chunk.
 *
 * Even so, half a MiB takes 4 ms to read, decode and scan. A runtime that can read
 * parts of the script avoids that: it runs the first line and the tail, where
 * `__read` is a function that returns any bytes of the comments. The stand-in for
 * denort does so.
 *
 * What only people run, the command lines, and what the node daemon runs every few
 * minutes, is one more comment, compressed: it is half of the code, and no call of a
 * plugin needs it.
 *
 * @module
 */

import { brotliCompressSync } from "node:zlib";
import { describeError } from "../../base/error.ts";
import { LINKED_HEAD, LINKED_TAIL } from "../mkdenort/mod.ts";

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
/** The directory of a module, which an executable does not have. */
const DIRNAME = /\bimport\.meta\.dirname\b/g;
/** `import("./chunk.js")`. */
const DYNAMIC_IMPORT = /\bimport\("\.\/([^"]+)"\)/g;
/** The chunks of command lines, as the entry imports them later. */
const COMMAND_LINES = /^(?:main|commands?|plugin_help)-/;
/** Chunks that only the node daemon imports, every few minutes, or REPAIR. */
const OF_DAEMON = /^(?:remove_orphans|repair(?:er|_link)?)-/;
/** Module syntax that must not remain after linking. */
const NOT_UNDERSTOOD =
  /\bimport\.meta\b|\b__[lz]\b|(?:^|[;}])(?:import|export)[*{" ]/;

/**
 * Links chunks as `deno bundle --code-splitting --format esm --minify` makes
 * them.
 *
 * @param entry File name of the chunk to begin with
 * @returns A script without imports
 * @throws {Error} If a chunk is not as expected, or not there
 */
export function linkChunks(chunks: Chunks, entry: string): string {
  if (!Object.hasOwn(chunks, entry)) {
    throw new Error(`Cannot link "${entry}": there is no such chunk`);
  }
  const { names, common } = order(chunks, entry);
  const encoder = new TextEncoder();
  const lines = names.map((name) => {
    const source = linkChunk(chunks, names, name, entry);
    if (name === entry && source.startsWith("async")) {
      checkNobodyWaits(chunks, entry);
    }
    const imports = listImports(chunks[name] ?? "")
      .map((imported) => names.indexOf(imported));
    return `//${imports};${formatLine(source)}\n`;
  });
  const isPacked = common < names.length;
  const comments = isPacked
    ? [...lines.slice(0, common), compress(lines.slice(common))]
    : lines;
  let end = 0;
  const ends = comments.map((line) => end += encoder.encode(line).length);
  // A chunk is a function of how to import others; what it exports is what it
  // returns. It runs once. `at` has where each comment begins, in bytes: the numbers
  // of the chunks that this one imports, and its function. V8 gets it with what it
  // imports, because each `eval` takes some 50 µs.
  return `${LINKED_HEAD}const at=${JSON.stringify([0, ...ends])},` +
    "loaded=[],made=[];" +
    "let lines,packed;" +
    'const line=typeof __read==="function"?n=>__read(at[n],at[n+1]):' +
    'n=>(lines??=String(store).split("\\n"))[n+1],' +
    `textOf=${
      isPacked ? `n=>n<${common}?line(n):packed[n-${common}]` : "line"
    },` +
    'make=n=>{let numbers=[],text="";' +
    "const compile=()=>{" +
    "(0,eval)(`[${text}]`).forEach((f,i)=>made[numbers[i]]=f);" +
    'numbers=[];text=""},' +
    "add=n=>{" +
    "if(n in made)return;" +
    "made[n]=void 0;" +
    'const one=textOf(n),end=one.indexOf(";");' +
    "numbers.push(n);" +
    `text+=${READ_FUNCTION}+",";` +
    `if(text.length>${AT_ONCE})compile();` +
    "for(const n of one.slice(2,end).match(/\\d+/g)??[])add(+n)};" +
    "add(n);if(text)compile();return made[n]}," +
    `ready=${isPacked ? unpacker(common) : "async()=>{}"},` +
    "load=n=>loaded[n]??=(made[n]??make(n))" +
    "(load,n=>ready(n).then(()=>load(n)))??{};" +
    `load(0);function store(){\n${comments.join("")}${LINKED_TAIL}\n`;
}

/** Returns the comment that has others in it. */
function compress(lines: readonly string[]): string {
  return `//${brotliCompressSync(lines.join("")).toString("base64")}\n`;
}

/**
 * Returns the code of a function that makes chunks from `first` on readable. A Blob
 * and a Response would be shorter, and take 5 ms more to load.
 */
function unpacker(first: number): string {
  return `async n=>{if(n<${first}||packed)return;` +
    'const stream=new DecompressionStream("brotli"),' +
    "writer=stream.writable.getWriter(),decoder=new TextDecoder();" +
    `writer.write(Uint8Array.fromBase64(line(${first}).slice(2).trim()));` +
    'writer.close();let text="";' +
    "for await(const part of stream.readable)" +
    "text+=decoder.decode(part,{stream:true});" +
    'packed=text.split("\\n")}';
}

/**
 * Makes a script of the only chunk of a bundle: what there is without linking.
 *
 * @throws {Error} As {@linkcode linkChunks}
 */
export function wrapChunk(chunks: Chunks, entry: string): string {
  return `(${linkChunk(chunks, [entry], entry, entry)})();\n`;
}

/**
 * Lists the chunks, the entry first. What a chunk imports follows it, so that few
 * reads get both; what it may import later follows these. What only command lines
 * import is at the end.
 *
 * @returns The chunks, and how many of them come before those of command lines
 */
function order(
  chunks: Chunks,
  entry: string,
): { names: string[]; common: number } {
  const roots = [entry];
  const rare: string[] = [];
  const names = new Set<string>();
  const add = (name: string): void => {
    if (names.has(name) || !Object.hasOwn(chunks, name)) return;
    names.add(name);
    const source = chunks[name] ?? "";
    listImports(source).forEach(add);
    for (const [, later = ""] of source.matchAll(DYNAMIC_IMPORT)) {
      const isRare = name === entry && COMMAND_LINES.test(later) ||
        OF_DAEMON.test(later);
      (isRare ? rare : roots).push(later);
    }
  };
  for (const root of roots) add(root); // which grows meanwhile
  const before = names.size;
  roots.push(...rare);
  for (const root of roots) add(root);
  Object.keys(chunks).sort().forEach(add);
  const common = rare.length === 0 ? names.size : before;
  return { names: [...names], common };
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
/** Turns the rest of a line into the text of a function again. */
const READ_FUNCTION = "one.slice(end+1).replace(/[\\x01-\\x04]/g," +
  'c=>"\\n\\r\\u2028\\u2029"[c.charCodeAt()-1])';

/** Characters that V8 gets at once. With 12 KiB, a call has 200 page faults more. */
const AT_ONCE = 8 * 1024;

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

/**
 * Turns the text of a module into the text of a function, in which other chunks
 * have numbers. `__l` loads one, `__z` does so later: the names are short because
 * each start reads thousands of them, and no shorter because minified code has
 * all names of two letters.
 */
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
    throw refuse(`it imports "${imported}", which is not a chunk`);
  };
  let body = (chunks[name] ?? "").trim(), imports = "";
  for (
    let found;
    (found = IMPORT.exec(body));
    body = body.slice(found[0].length)
  ) {
    const [, names, imported = ""] = found;
    const load = `__l(${check(imported)});`;
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
  const rest = NOT_UNDERSTOOD.exec(body);
  if (rest !== null) throw refuse(`"${rest[0]}" is not understood`);
  body = body.replaceAll("__LAZY__(", "__z(");
  const result = exported === null
    ? ""
    : `;return{${renamed(swapped(exported[1] ?? ""))}}`;
  const source = `(__l,__z)=>{"use strict";${imports}${body}${result}}`;
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
