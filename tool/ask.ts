/**
 * Questions on a terminal.
 *
 * @module
 */

import { ExitError } from "./failure.ts";

/**
 * Asks a question; returns the default for an empty answer.
 *
 * @throws {ExitError} 130 after Ctrl-C or Ctrl-D
 */
export type Ask = (question: string, fallback: string) => string;

/** Returns how to ask; undefined without a terminal. */
export function findAsk(): Ask | undefined {
  if (!Deno.stdin.isTerminal() || !Deno.stdout.isTerminal()) return undefined;
  return (question, fallback) => {
    // A default of prompt() would be text in front of what is typed.
    const answer = prompt(`${question} [${fallback}]:`);
    if (answer === null) throw new ExitError("Stopped without an answer", 130);
    return answer.trim() || fallback;
  };
}
