/**
 * Runs scripts in processes of their own.
 *
 * @module
 */

import { importFlags } from "../../scripts/net.ts";

/**
 * Returns a URL by which `deno run` runs a script. Unlike `deno eval`, it
 * records coverage. Imports must be absolute.
 */
export function asModule(script: string): string {
  return `data:application/typescript,${encodeURIComponent(script)}`;
}

/** Deno looks for it beside the main module, which a script has not. */
const CONFIG = new URL("../../deno.json", import.meta.url).pathname;

/**
 * Returns arguments by which deno runs a script that imports the project. It
 * downloads nothing: a proxy of the test may be in its environment.
 */
export async function moduleArgs(script: string): Promise<string[]> {
  const flags = [...await importFlags(), `--config=${CONFIG}`, "--cached-only"];
  return ["run", "-A", "--no-check", ...flags, asModule(script)];
}
