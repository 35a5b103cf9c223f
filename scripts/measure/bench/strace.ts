/**
 * strace, and the summary that `strace -f -c` writes.
 *
 * @module
 */

import type { Measures } from "./measures.ts";

/** Percent, seconds, microseconds a call, calls, errors if any, name. */
const LINE = /^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)(?:\s+(\d+))?\s+(\w+)$/;

/**
 * Counts the system calls, and the programs that were begun: calls of execve
 * that did not fail. Searching PATH for a program fails in every directory before.
 *
 * @throws {Error} If the text has no line of a system call
 */
export function parseStraceSummary(text: string): Measures {
  let execs = 0, syscalls = 0;
  for (const line of text.split("\n")) {
    const [, calls, errors = "0", name = "total"] = LINE.exec(line) ?? [];
    if (calls === undefined || name === "total") continue;
    syscalls += Number(calls);
    if (/^execve(at)?$/.test(name)) execs += Number(calls) - Number(errors);
  }
  if (syscalls === 0) {
    throw new Error(`Cannot read strace's summary: ${JSON.stringify(text)}`);
  }
  return { execs, syscalls };
}

/**
 * Finds strace.
 *
 * @param path Directories, with colons between
 * @returns `undefined` if it is missing or may not trace here
 */
export function findStrace(path: string): string | undefined {
  return path.split(":").map((directory) => `${directory}/strace`).find(
    canTrace,
  );
}

function canTrace(strace: string): boolean {
  try {
    const args = ["-f", "-c", "-o", "/dev/null", "true"];
    return new Deno.Command(strace, { args, stderr: "null" })
      .outputSync().success;
  } catch {
    return false;
  }
}
