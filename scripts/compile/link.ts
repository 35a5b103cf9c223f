/**
 * Joins the chunks of a code-split bundle into one script.
 *
 * An executable holds one script, and V8 looks at all of it before it runs any:
 * some 25 µs for each KiB of code, 5 µs for each KiB of a text literal, and next
 * to nothing for comments. So here a chunk is a comment, which a function's own
 * text leads to, until something imports it. A call pays for the plugin that it
 * calls, and VERSION for none, however many plugins there are.
 *
 * To look at the comments and to take the lines out of a function's text are 3 ms
 * all the same for half a MiB. Who runs the script can spare them: it leaves out
 * all lines between the first and the last, and runs the rest where `__line` is
 * a function that returns any line by its number. The stand-in for denort does so.
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
/** The first line of every linked script. */
export const LINKED_HEAD = "(()=>{const store=()=>{";
/** Module syntax that must not remain after linking. */
const LEFT_OVER =
  /\bimport\.meta\b|\b__(?:load|lazy)\b|(?:^|[;}])(?:import|export)[*{" ]/;

/**
 * Links chunks as `deno bundle --code-splitting --format esm --minify` makes
 * them.
 *
 * @param entry File name of the chunk to begin with
 * @returns A script without imports
 * @throws {Error} If a chunk is not as expected, or not there
 */
export function linkChunks(chunks: Chunks, entry: string): string {
  const sources = Object.fromEntries(
    Object.keys(chunks).sort().map((
      name,
    ) => [name, linkChunk(chunks, name, name === entry)]),
  );
  if (!Object.hasOwn(sources, entry)) {
    throw new Error(`Cannot link "${entry}": there is no such chunk`);
  }
  checkNobodyWaits(chunks, sources, entry);
  const names = Object.keys(sources);
  const comments = names
    .map((name) => `//${formatLine(sources[name] ?? "")}\n`).join("");
  // An imported chunk is a function of how to import others; what it exports is
  // what it returns. It runs once.
  return `${LINKED_HEAD}\n${comments}},` +
    'line=typeof __line==="function"?__line:' +
    '(lines=>number=>lines[number])(String(store).split("\\n")),' +
    `names=${JSON.stringify(names)},loaded={},` +
    "source=name=>JSON.parse(line(names.indexOf(name)+1).slice(2))," +
    "load=name=>loaded[name]??=(0,eval)(source(name))" +
    "(load,name=>Promise.resolve().then(()=>load(name)))??{};" +
    `load(${JSON.stringify(entry)})})();\n`;
}

/** Makes JSON of a text, in one line to V8 too: it also ends lines at these two. */
function formatLine(text: string): string {
  return JSON.stringify(text)
    .replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");
}

/** Others are given what the entry exports, not the promise of it. */
function checkNobodyWaits(
  chunks: Chunks,
  sources: Chunks,
  entry: string,
): void {
  if (!sources[entry]?.startsWith("async")) return;
  for (const [name, text] of Object.entries(chunks)) {
    if (!text.includes(`"./${entry}"`)) continue;
    throw new Error(
      `Cannot link chunk "${name}": "${entry}", which it imports, awaits outside of functions`,
    );
  }
}

/** Turns the text of a module into the text of a function. */
function linkChunk(chunks: Chunks, name: string, isEntry: boolean): string {
  const refuse = (why: string): Error =>
    new Error(`Cannot link chunk "${name}": ${why}`);
  const check = (imported: string): string => {
    if (Object.hasOwn(chunks, imported)) return JSON.stringify(imported);
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
