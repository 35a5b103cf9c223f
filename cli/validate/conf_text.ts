/**
 * The text of a configuration, with the positions of its keys and values.
 *
 * @module
 */

import {
  type Node,
  type ParseError,
  parseTree,
  printParseErrorCode,
} from "jsonc-parser";
import type { ConfigPath, Problem } from "../../metadata/problem.ts";

/** A position in a file. Both start at 1; columns count characters. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** JSON inside another text. */
export interface Host {
  /** The whole file. */
  readonly text: string;
  /** Maps an offset in the JSON to the file. */
  readonly toFile: (offset: number) => number;
}

/** A key that repeats in an object. */
export interface RepeatedKey {
  readonly place: ConfigPath;
  readonly offset: number;
  /** The line of the first key. */
  readonly firstLine: number;
  /** The spelling of the first key. */
  readonly first: string;
}

/** The JSON of a configuration. */
export class ConfText {
  /** The JSON. */
  readonly json: string;
  readonly #host: Host;
  readonly #root: Node | undefined;
  readonly #errors: ParseError[] = [];

  /** @param host The file, if the JSON is only a part of it */
  constructor(json: string, host?: Host) {
    this.json = json;
    this.#host = host ?? { text: json, toFile: (offset) => offset };
    try {
      this.#root = parseTree(json, this.#errors, { disallowComments: true });
    } catch {
      this.#root = undefined; // It is nested too deeply.
    }
  }

  /** Finds the first syntax error; undefined if the text is JSON. */
  findSyntaxError(): Pick<Problem, "offset" | "message"> | undefined {
    try {
      JSON.parse(this.json);
      return undefined;
    } catch {
      if (this.json.trim() === "") return { offset: 0, message: "it is empty" };
      if (this.json.startsWith("\ufeff")) {
        const message = "not JSON: it starts with a byte order mark";
        return { offset: 0, message };
      }
      const [first] = this.#errors;
      if (first === undefined) return { offset: 0, message: "not JSON" };
      const { error, offset, length } = first;
      const found = this.json.slice(offset, offset + length);
      const code = printParseErrorCode(error);
      return { offset, message: describeSyntax(code, found) };
    }
  }

  /** Lists keys that repeat in an object, in any case. The last value counts. */
  listRepeatedKeys(): RepeatedKey[] {
    const repeated: RepeatedKey[] = [];
    const visit = (node: Node | undefined, place: ConfigPath): void => {
      const seen = new Map<string, Node>();
      for (const [index, child] of (node?.children ?? []).entries()) {
        if (node?.type !== "object") {
          visit(child, [...place, index]);
          continue;
        }
        const [key, value] = child.children ?? [];
        if (key === undefined) continue;
        const inner = [...place, String(key.value)];
        const folded = String(key.value).toLowerCase();
        const first = seen.get(folded);
        if (first === undefined) seen.set(folded, key);
        else {
          repeated.push({
            place: inner,
            offset: key.offset,
            firstLine: this.positionOf(first.offset).line,
            first: String(first.value),
          });
        }
        visit(value, inner);
      }
    };
    visit(this.#root, []);
    return repeated;
  }

  /** Returns the position of a problem; of the closest object if its key is absent. */
  locate({ place, isKey, offset }: Problem): Position {
    return this.positionOf(offset ?? this.#find(place, isKey));
  }

  #find(place: ConfigPath, isKey: boolean): number {
    let offset = this.#root?.offset ?? 0;
    let node = this.#root;
    for (const [depth, key] of place.entries()) {
      const isLast = depth === place.length - 1;
      const child = typeof key === "number"
        ? node?.children?.[key]
        : findProperty(node, String(key));
      if (child === undefined) return offset;
      const value = typeof key === "number" ? child : child.children?.[1];
      offset = isLast && isKey ? child.offset : value?.offset ?? child.offset;
      node = value;
    }
    return offset;
  }

  /** Returns the position in the file of an offset in the JSON. */
  positionOf(offset: number): Position {
    const { text, toFile } = this.#host;
    const before = text.slice(0, toFile(offset)).split("\n");
    return {
      line: before.length,
      column: [...before.at(-1) ?? ""].length + 1,
    };
  }

  /** Returns a line of the file. */
  lineAt(line: number): string {
    return (this.#host.text.split("\n")[line - 1] ?? "").replace(/\r$/, "");
  }
}

/** Finds a key as plugins read it: the exact spelling first, then any other. */
function findProperty(node: Node | undefined, key: string): Node | undefined {
  if (node?.type !== "object") return undefined;
  const spellingOf = (property: Node): string =>
    String(property.children?.[0]?.value);
  const { children = [] } = node;
  return children.findLast((property) => spellingOf(property) === key) ??
    children.findLast((property) =>
      spellingOf(property).toLowerCase() === key.toLowerCase()
    );
}

/** The errors of jsonc-parser in words for people. */
const SYNTAX: Readonly<Record<string, string>> = {
  PropertyNameExpected: "expected a key in double quotes",
  ValueExpected: "expected a value",
  ColonExpected: "expected a colon",
  CommaExpected: "expected a comma",
  CloseBraceExpected: 'expected "}"',
  CloseBracketExpected: 'expected "]"',
  EndOfFileExpected: "expected the end of the file",
  InvalidCommentToken: "JSON has no comments",
  UnexpectedEndOfComment: "JSON has no comments",
  UnexpectedEndOfString: "the string has no end",
  UnexpectedEndOfNumber: "not a number",
  InvalidUnicode: "not a character",
  InvalidEscapeCharacter: "not an escape sequence",
  InvalidCharacter: "a control character in a string",
};

function describeSyntax(code: string, found: string): string {
  const got = found === "" ? "the end" : JSON.stringify(found.slice(0, 20));
  const problem = SYNTAX[code] ?? `unexpected ${got}`;
  const isTrailing = code === "PropertyNameExpected" && found === "}" ||
    code === "ValueExpected" && found === "]";
  const hint = isTrailing
    ? "; remove the comma before it"
    : /^['\u2018-\u201f]/.test(found)
    ? "; use double quotes"
    : found.startsWith("#")
    ? "; JSON has no comments"
    : /^(True|False)\b/.test(found)
    ? `; write ${found.toLowerCase()}`
    : found === "None"
    ? "; write null"
    : "";
  return code.endsWith("Expected")
    ? `not JSON: ${problem}, got ${got}${hint}`
    : `not JSON: ${problem}${hint}`;
}
