/**
 * Regular expressions in RE2's syntax, which Go programs use.
 *
 * @module
 */

/** An escaped character, or a named set of characters. */
const ESCAPE = String.raw`\\[pP](?:\{\^?\w+\}|\w)|\\x(?:\{[\da-fA-F]+\}|` +
  String.raw`[\da-fA-F]{2})|\\[^]`;
/** A special construct, or any other character. */
const TOKEN = new RegExp(
  String.raw`\\Q[^]*?(?:\\E|$)|${ESCAPE}|` +
    String.raw`\[\^?\]?(?:\[:\^?\w+:\]|\\[^]|[^\]\\])*\]|` +
    String.raw`\(\?(?:P?<\w+>|[a-zA-Z-]*[:)])|\(\?|\{\d+(?:,\d*)?\}|[^]`,
  "gu",
);
const CLASS_TOKEN = new RegExp(
  String.raw`\[:\^?\w+:\]|${ESCAPE}|[^]`,
  "gu",
);

/** Characters with the same meaning in JavaScript. */
const SAME = new Set(["^", "$", ".", "*", "+", "?"]);

/** Sets of characters. RE2's \s does not contain \v. */
const SETS: Readonly<Record<string, string>> = {
  d: "0-9",
  w: "0-9A-Za-z_",
  s: String.raw`\t\n\f\r\x20`,
  alnum: "0-9A-Za-z",
  alpha: "A-Za-z",
  ascii: String.raw`\x00-\x7f`,
  blank: String.raw`\t\x20`,
  cntrl: String.raw`\x00-\x1f\x7f`,
  digit: "0-9",
  graph: String.raw`\x21-\x7e`,
  lower: "a-z",
  print: String.raw`\x20-\x7e`,
  punct: String.raw`\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e`,
  space: String.raw`\t\n\v\f\r\x20`,
  upper: "A-Z",
  word: "0-9A-Za-z_",
  xdigit: "0-9A-Fa-f",
};

/** Escapes for a position or a control character. */
const PLACES: Readonly<Record<string, string>> = {
  A: String.raw`(?<![^])`,
  z: String.raw`(?![^])`,
  b: String.raw`\b`,
  B: String.raw`\B`,
};
const CONTROLS: Readonly<Record<string, string>> = {
  a: "\x07",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};

/**
 * Compiles a regular expression.
 *
 * Source: https://github.com/google/re2/wiki/Syntax, as of Go's regexp/syntax.
 *
 * @throws {SyntaxError} If it is malformed, or uses octal numbers or `(?U)`
 */
export function compileRe2(pattern: string): RegExp {
  return new RegExp(translate(pattern), "v");
}

function translate(pattern: string): string {
  // For each open group, the groups that flags such as (?i) in it have opened,
  // because flags apply until its end, across alternatives.
  const flags: string[][] = [[]];
  const close = (opened: readonly string[]): string =>
    ")".repeat(opened.length);
  const translated = (pattern.match(TOKEN) ?? []).map((token) => {
    const opened = flags.at(-1) ?? [];
    if (token.startsWith("\\Q")) {
      return [...token.slice(2).replace(/\\E$/, "")].map(literal).join("");
    }
    if (token.startsWith("\\")) {
      return PLACES[token.slice(1)] ?? escaped(token);
    }
    if (token.startsWith("[")) return characterClass(token);
    if (token.startsWith("{")) return token === "{" ? literal(token) : token;
    if (SAME.has(token)) return token;
    if (token === "|") return `${close(opened)}|${opened.join("")}`;
    if (token === ")") return close(flags.pop() ?? []) + token;
    if (token === "(?") throw new SyntaxError("unknown kind of group");
    if (!token.startsWith("(")) return literal(token);
    const group = token.replace("(?P<", "(?<");
    if (!group.endsWith(")")) {
      flags.push([]);
      return group;
    }
    const scoped = group.replace(")", ":");
    opened.push(scoped);
    return scoped;
  }).join("");
  return translated + close(flags[0] ?? []);
}

/** Translates `[...]`. */
function characterClass(token: string): string {
  if (token === "[") throw new SyntaxError("missing closing ]");
  const [, start = "", items = ""] = /^(\[\^?)([^]*)\]$/.exec(token) ?? [];
  const parts = items.match(CLASS_TOKEN) ?? [];
  const translated = parts.map((part, at) => {
    if (part.startsWith("[:")) return namedSet(part);
    if (part.startsWith("\\")) return escaped(part);
    const isRange = part === "-" && at > 0 && at < parts.length - 1 &&
      !isSet(parts[at - 1]) && !isSet(parts[at + 1]);
    return isRange ? part : literal(part);
  });
  return `${start}${translated.join("")}]`;
}

/** Reports whether a part of a class matches more than one character. */
function isSet(part = ""): boolean {
  return part.startsWith("[:") || /^\\[dDwWsSpP]/.test(part);
}

function namedSet(part: string): string {
  const [, not = "", name = ""] = /^\[:(\^?)(\w+):\]$/.exec(part) ?? [];
  if (name.length > 1 && Object.hasOwn(SETS, name)) {
    return `[${not}${SETS[name]}]`;
  }
  throw new SyntaxError(`unknown character class ${part}`);
}

function escaped(token: string): string {
  const [, letter = "", braces, rest = ""] =
    /^\\([^])(?:\{([^}]*)\}|([^]*))$/u.exec(token) ?? [];
  const name = braces ?? rest;
  if (letter === "p" || letter === "P") return property(letter, name);
  if (letter === "x") return literal(String.fromCodePoint(parseInt(name, 16)));
  const set = SETS[letter.toLowerCase()];
  if (set !== undefined) return `[${/[A-Z]/.test(letter) ? "^" : ""}${set}]`;
  if (Object.hasOwn(CONTROLS, letter)) return literal(CONTROLS[letter] ?? "");
  if (/^[!-/:-@[-`{-~]$/.test(letter)) return literal(letter);
  throw new SyntaxError(`invalid escape sequence ${token}`);
}

/** Translates `\pL`, `\p{Greek}` and `\p{^Greek}`. */
function property(letter: string, name: string): string {
  const isNegated = name.startsWith("^") !== (letter === "P");
  const bare = name.replace("^", "");
  const value = bare.length > 2 ? `Script=${bare}` : bare;
  return `\\${isNegated ? "P" : "p"}{${value}}`;
}

/** Returns an expression that matches only one character. */
function literal(character: string): string {
  return /^\w$/.test(character)
    ? character
    : String.raw`\u{${character.codePointAt(0)?.toString(16)}}`;
}
