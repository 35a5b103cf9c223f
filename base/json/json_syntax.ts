/**
 * Finds syntax errors in JSON. The messages of `JSON.parse()` quote the text, which
 * can come from any file, and some contain no location.
 *
 * @module
 */

/**
 * Describes the problem in a text and its location, without quoting the text.
 *
 * @param text A text that `JSON.parse()` refuses
 */
export function describeSyntaxError(text: string): string {
  const offset = findSyntaxError(text) ?? text.length;
  const before = text.slice(0, offset);
  const line = before.split("\n").length;
  const column = offset - before.lastIndexOf("\n");
  const what = offset === text.length ? "end" : "character";
  return `unexpected ${what} at line ${line}, column ${column}`;
}

/**
 * The tokens that can come next, apart from white space: a character, or `*` for a
 * scalar.
 */
const ALLOWED = {
  value: '*"[{',
  item: '*"[{]',
  key: '"',
  firstKey: '"}',
  colon: ":",
  rest: ",]}",
} as const;

type Next = keyof typeof ALLOWED;

function afterString(next: Next): Next {
  return next === "key" || next === "firstKey" ? "colon" : "rest";
}

const BLANK = " \t\n\r";

/** A number or a literal name. */
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

/**
 * Finds the first character that is not allowed at its position in JSON.
 *
 * Source: RFC 8259, 2 to 7.
 *
 * @returns Its offset; the text's length if the text ends too early; undefined if the
 * text is JSON
 */
export function findSyntaxError(text: string): number | undefined {
  /** The closing brackets of the open objects and arrays. */
  const open: string[] = [];
  let next: Next = "value";
  for (let at = 0;;) {
    const character = text[at];
    if (character === undefined) {
      return next === "rest" && open.length === 0 ? undefined : at;
    }
    if (BLANK.includes(character)) {
      at++;
      continue;
    }
    const kind: string = '"[]{},:'.includes(character) ? character : "*";
    if (!ALLOWED[next].includes(kind)) return at;
    let end = at + 1;
    if (kind === "*") {
      SCALAR.lastIndex = at;
      if (!SCALAR.test(text)) return at;
      end = SCALAR.lastIndex;
      next = "rest";
    } else if (kind === '"') {
      end = findEndOfString(text, at);
      if (end < 0) return -end;
      next = afterString(next);
    } else if (kind === "[" || kind === "{") {
      open.push(kind === "[" ? "]" : "}");
      next = kind === "[" ? "item" : "firstKey";
    } else if (kind === ":") {
      next = "value";
    } else if (kind === ",") {
      if (open.length === 0) return at;
      next = open.at(-1) === "}" ? "key" : "value";
    } else {
      if (open.pop() !== kind) return at;
      next = "rest";
    }
    at = end;
  }
}

const ESCAPE = /\\(?:["\\/bfnrt]|u[\da-fA-F]{4})/y;

/** @returns The offset after the string, or the negated offset of the error */
function findEndOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length;) {
    const character = text[at] ?? "";
    if (character === '"') return at + 1;
    if (character < " ") return -at;
    if (character !== "\\") {
      at++;
      continue;
    }
    ESCAPE.lastIndex = at;
    if (!ESCAPE.test(text)) return -at;
    at = ESCAPE.lastIndex;
  }
  return -text.length;
}
