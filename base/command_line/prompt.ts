/**
 * Questions on a terminal.
 *
 * @module
 */

import { readVariable } from "../process/stdio.ts";
import { ExitError } from "./failure.ts";

/**
 * Asks a question; returns the default for an empty answer.
 *
 * @throws {ExitError} 130 after Ctrl-C or Ctrl-D
 */
export type Prompt = (question: string, fallback: string) => string;

/**
 * On these terminals, prompt() reads a line in the kernel's line mode, and Ctrl-C is
 * a signal that waits until the end of the line.
 *
 * Source: rustyline src/tty/unix.rs `UNSUPPORTED_TERM`.
 */
const WITHOUT_KEYS = ["dumb", "cons25", "emacs"];

/** Returns the prompt function; undefined without a terminal that reports each key. */
export function findPrompt(): Prompt | undefined {
  if (!Deno.stdin.isTerminal() || !Deno.stdout.isTerminal()) return undefined;
  if (WITHOUT_KEYS.includes(readVariable("TERM") ?? "")) return undefined;
  return (question, fallback) => {
    // A default that is passed to prompt() would precede the typed text.
    const answer = prompt(`${question} [${fallback}]:`);
    if (answer === null) throw new ExitError("Stopped without an answer", 130);
    return answer.trim() || fallback;
  };
}
