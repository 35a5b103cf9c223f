// deno-lint-ignore-file no-console -- its output is what it is for

/**
 * Creates the stand-in for `denort` that the build uses where it cannot download
 * denort, by the package in `mkdenort/`.
 *
 *     deno run -A scripts/mkdenort.ts DENO OUTPUT
 *
 * @module
 */

import { V8_FLAGS } from "./compile/v8_flags.ts";
import { makeDenortFile } from "./mkdenort/mod.ts";

if (import.meta.main) {
  const [deno, output, ...rest] = Deno.args;
  if (deno === undefined || output === undefined || rest.length > 0) {
    console.error("Usage: deno run -A scripts/mkdenort.ts DENO OUTPUT");
    Deno.exit(2);
  }
  await makeDenortFile(deno, output, { v8Flags: V8_FLAGS });
}
