/**
 * Makes a stand-in from the command line.
 *
 *     deno run -A main.ts DENO OUTPUT [V8-FLAG]...
 *
 * @module
 */

import { makeDenortFile } from "./mod.ts";

if (import.meta.main) {
  const [deno, output, ...v8Flags] = Deno.args;
  if (deno === undefined || output === undefined) {
    console.error("Usage: deno run -A main.ts DENO OUTPUT [V8-FLAG]...");
    Deno.exit(2);
  }
  await makeDenortFile(deno, output, { v8Flags });
}
