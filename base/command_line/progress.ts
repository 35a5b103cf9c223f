/**
 * The progress of long commands.
 *
 * @module
 */

import type { Environment } from "../process/environment.ts";

/** Erases the line of the cursor. */
const ERASE = "\r\u001b[K";

/**
 * Shows the current step of a command: on a line that changes, or on a new line each.
 */
export class Progress implements Disposable {
  readonly #write: (text: string) => void;
  readonly #columns: number | undefined;
  #text = "";

  /**
   * Shows nothing yet.
   *
   * @param write Receives text for stderr
   * @param columns Width of the terminal; undefined for plain lines
   */
  constructor(write: (text: string) => void, columns?: number) {
    this.#write = write;
    this.#columns = columns;
  }

  /** Shows a step instead of the previous one. */
  show(text: string): void {
    if (this.#columns === undefined) return this.#write(`${text}\n`);
    this.#text = text.slice(0, this.#columns - 1);
    this.#write(ERASE + this.#text);
  }

  /** Prints something above the line that changes. */
  print(print: () => void): void {
    const text = this.#text;
    this.clear();
    print();
    if (text !== "") this.show(text);
  }

  /** Removes the line that changes. */
  clear(): void {
    if (this.#text !== "") this.#write(ERASE);
    this.#text = "";
  }

  /** Removes the line that changes. */
  [Symbol.dispose](): void {
    this.clear();
  }
}

/** Returns the width of stderr's terminal; undefined if lines cannot change. */
export function findColumns({ TERM }: Environment): number | undefined {
  if (!Deno.stderr.isTerminal() || TERM === "dumb") return undefined;
  try {
    return Deno.consoleSize().columns || 80;
  } catch {
    return 80; // stdin, stdout and stderr are not all terminals
  }
}
