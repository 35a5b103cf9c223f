/**
 * The texts of errors in the sources: those of `new CniError(...)`, and those
 * that are given to functions which make one, such as `invalid("...")`.
 *
 * @module
 */

import { ErrorCode } from "../../cni/error.ts";

/** A text; `…` stands for what varies. */
export interface ErrorText {
  readonly path: string;
  readonly code: number;
  readonly text: string;
}

/** A literal of TypeScript, with a sum's other parts. */
const LITERAL = /^\s*(?:\+\s*)?(["'`])((?:\\.|(?!\1)[^])*)\1/;

/** The name, parameters, code and message of a function that makes errors. */
const MAKER = new RegExp(
  /(?:function (\w+)|const (\w+) =) ?\(([^)]*)\): (?:CniError|UsageError|never)/
    .source +
    /\s(?:(?!\n\})[^])*?new CniError\(\s*ErrorCode\.(\w+),\s*([^;]*)/.source,
  "g",
);

/** Lists the texts in modules, given by path. */
export function listErrorTexts(
  sources: ReadonlyMap<string, string>,
): ErrorText[] {
  return [...sources].flatMap(([path, source]) => [
    ...listDirect(source).map((found) => ({ path, ...found })),
    ...listByMakers(sources, path),
  ]);
}

type Found = Omit<ErrorText, "path">;

function listDirect(source: string): Found[] {
  return [...source.matchAll(/(?:new CniError|super)\(\s*ErrorCode\.(\w+),/g)]
    .map((match) => ({
      code: codeOf(match[1]),
      text: readText(source.slice(match.index + match[0].length)),
    }))
    .filter(({ text }) => text !== "");
}

/** Lists what this module and others give to its functions that make errors. */
function listByMakers(
  sources: ReadonlyMap<string, string>,
  path: string,
): ErrorText[] {
  const file = path.slice(path.lastIndexOf("/") + 1);
  return [...sources.get(path)?.matchAll(MAKER) ?? []].flatMap((match) => {
    const [, declared, assigned, parameters = "", code, message = ""] = match;
    const name = declared ?? assigned ?? "";
    const names = parameters.split(",").map((one) => one.split(":")[0]?.trim());
    const at = names.indexOf(/^\w+/.exec(message)?.[0]);
    if (at === -1) return [];
    const users = [...sources].filter(([other, source]) =>
      other === path ||
      new RegExp(`import[^;]*\\b${name}\\b[^;]*/${file}"`).test(source)
    );
    return users.flatMap(([user, source]) =>
      listArguments(source, name, at)
        .map((text) => ({ path: user, code: codeOf(code), text }))
    );
  });
}

/** Lists the literals that are a function's argument of a position. */
function listArguments(source: string, name: string, at: number): string[] {
  return [...source.matchAll(new RegExp(`\\b${name}\\(`, "g"))]
    .map(({ index, 0: call }) => {
      let rest = source.slice(index + call.length);
      for (let skipped = 0; skipped < at; skipped++) {
        rest = rest.slice(rest.indexOf(",") + 1);
      }
      return readText(rest);
    })
    .filter((text) => text !== "");
}

function codeOf(name = ""): number {
  return ErrorCode[name as keyof typeof ErrorCode];
}

function readText(source: string): string {
  let rest = source;
  let text = "";
  for (let part; (part = LITERAL.exec(rest)) !== null;) {
    text += part[2] ?? "";
    rest = rest.slice(part[0].length);
  }
  const plain = text.replace(/\$\{(?:[^{}]|\{[^}]*\})*\}/g, "…");
  // A template in a template is not understood.
  return plain.includes("${") ? "" : plain;
}
