/**
 * Prints which tests this machine's kernel cannot run, as JSON: for each file, their
 * names. Loads the test files, and runs nothing.
 *
 *     deno run -A scripts/kernel/list_lacking.ts FILE...
 *
 * @module
 */

import { findLacking } from "./select.ts";

const lacking: Record<string, string[]> = {};
let file = "";

/** Stands for Deno.test(): the first argument is the name, or has it. */
function note(first: string | { readonly name: string }): void {
  const name = findLacking(typeof first === "string" ? first : first.name);
  if (name !== undefined) (lacking[file] ??= []).push(name);
}

Object.defineProperty(Deno, "test", { value: note });
for (file of Deno.args) {
  await import(`file://${encodeURI(`${Deno.cwd()}/${file}`)}`);
}
await Deno.stdout.write(new TextEncoder().encode(JSON.stringify(lacking)));
Deno.exit();
