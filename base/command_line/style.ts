/**
 * Emphasis on a terminal.
 *
 * @module
 */

import type { Environment } from "../process/environment.ts";

/** Highlights text for people. */
export interface Style {
  /** Width of the terminal in characters; absent if stdout is not a terminal. */
  readonly width?: number | undefined;
  /** Highlights headings. */
  bold(text: string): string;
  /** Highlights errors. */
  red(text: string): string;
  /** Highlights warnings. */
  yellow(text: string): string;
  /** Highlights success. */
  green(text: string): string;
}

const ESCAPE = "\u001b[";

/**
 * Returns terminal highlighting, or none.
 *
 * @param width The terminal's width, in characters
 */
export function chooseStyle(isColored: boolean, width?: number): Style {
  const mark = (on: number, off: number) => (text: string): string =>
    isColored && text !== "" ? `${ESCAPE}${on}m${text}${ESCAPE}${off}m` : text;
  return {
    width,
    bold: mark(1, 22),
    red: mark(31, 39),
    yellow: mark(33, 39),
    green: mark(32, 39),
  };
}

/**
 * Reports whether to use colours: on a terminal that supports them, unless the
 * user disables them.
 *
 * Source: https://no-color.org.
 */
export function wantsColor(env: Environment, isTerminal: boolean): boolean {
  return isTerminal && !env["NO_COLOR"] && env["TERM"] !== "dumb";
}

/** Returns the terminal's width in characters; undefined if stdout is not a terminal. */
export function measureTerminal(): number | undefined {
  if (!Deno.stdout.isTerminal()) return undefined;
  try {
    // 0 if the terminal does not report its width, such as a serial line.
    return Deno.consoleSize().columns || undefined;
  } catch {
    return undefined;
  }
}

/**
 * Makes control characters visible, as in JSON. Text from files and plugins
 * must not control the terminal.
 */
export function showControls(text: string): string {
  return text.replace(
    /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu,
    (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
