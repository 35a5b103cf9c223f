/**
 * Questions on a terminal.
 *
 * @module
 */

/** Asks a question; returns the default for an empty answer. */
export type Ask = (question: string, fallback: string) => string;

/** Returns how to ask; undefined without a terminal. */
export function findAsk(): Ask | undefined {
  if (!Deno.stdin.isTerminal() || !Deno.stdout.isTerminal()) return undefined;
  return (question, fallback) => prompt(question, fallback) || fallback;
}
