/**
 * Emphasis on a terminal.
 *
 * @module
 */

import type { Environment } from "../cni/args.ts";

/** Marks text for people. */
export interface Style {
  /** Marks headings. */
  bold(text: string): string;
  /** Marks what is wrong. */
  red(text: string): string;
  /** Marks what wants attention. */
  yellow(text: string): string;
  /** Marks what is well. */
  green(text: string): string;
}

const ESCAPE = "\u001b[";

/** Returns the marks of a terminal, or none at all. */
export function chooseStyle(isColored: boolean): Style {
  const mark = (on: number, off: number) => (text: string): string =>
    isColored && text !== "" ? `${ESCAPE}${on}m${text}${ESCAPE}${off}m` : text;
  return {
    bold: mark(1, 22),
    red: mark(31, 39),
    yellow: mark(33, 39),
    green: mark(32, 39),
  };
}

/**
 * Says whether to use colours: on a terminal that has them, unless the user
 * wants none.
 *
 * Source: https://no-color.org.
 */
export function wantsColor(env: Environment, isTerminal: boolean): boolean {
  return isTerminal && !env["NO_COLOR"] && env["TERM"] !== "dumb";
}

/**
 * Makes control characters visible, as in JSON: what a file or a plugin says
 * must not command the terminal.
 */
export function showControls(text: string): string {
  return text.replace(
    /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu,
    (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
