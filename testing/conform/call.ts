/**
 * A call of a plugin, and what came of it.
 *
 * @module
 */

import { quote, quoteAlways } from "../../base/command_line/shell.ts";
import type { Place } from "./place.ts";

/** A call. */
export interface Request {
  /** The variables that begin with `CNI_`, and a configured environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** The outcome of a call. */
export interface Reply {
  /** `0`, `1`, ...; `signal: killed`; `hung` if it did not end in time. */
  readonly exit: string;
  readonly stdout: string;
  readonly stderr: string;
  /** The document on stdout; undefined if that is not one. */
  // deno-lint-ignore no-explicit-any -- requirements look into it as they please
  readonly json: any;
}

/** An executable. */
export interface Executable {
  /** Its path. */
  readonly executable: string;
  /**
   * Calls it.
   *
   * @param before A program that starts it, such as a tracer
   */
  callBy(
    before: readonly string[],
    place: Place,
    request: Request,
  ): Promise<Reply>;
}

/** The PATH that plugins get. */
export const PLUGIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin" +
  ":/sbin:/bin";

/** Reads a text that is one JSON document; undefined otherwise. */
export function readDocument(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Writes a call as a line for bash.
 *
 * @param results Names of variables that have results, by the result's JSON
 */
export function formatCall(
  executable: string,
  request: Request,
  results: ReadonlyMap<string, string> = new Map(),
): string {
  const variables = Object.entries(request.env)
    .map(([name, value]) => `${name}=${quote(value)}`);
  const { stdin } = request;
  const words = [...variables, executable, "<<<"];
  for (const [json, variable] of results) {
    const [before, after, ...more] = stdin.split(json);
    if (before === undefined || after === undefined || more.length > 0) {
      continue;
    }
    const text = `${quoteAlways(before)}"$${variable}"${quoteAlways(after)}`;
    return [...words, text].join(" ");
  }
  const text = stdin.length > 4000
    ? `'${stdin.slice(0, 100)}...' # ${stdin.length} bytes`
    : quoteAlways(stdin);
  return [...words, text].join(" ");
}
