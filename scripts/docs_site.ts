/**
 * Builds the documentation as a site in dist/site: `deno task docs`. Imports
 * nothing that needs jsr.io.
 *
 * @module
 */

import { answerHelp } from "./help.ts";

const FOLDER = new URL("../docs/site/", import.meta.url);

/** Runs npm in the folder of the site. Returns its exit code. */
function npm(...args: readonly string[]): number {
  const { code } = new Deno.Command("npm", {
    args: [...args],
    cwd: FOLDER,
    stdin: "inherit",
    stdout: "inherit",
    stderr: "inherit",
  }).outputSync();
  return code;
}

if (import.meta.main) {
  answerHelp(`Build the documentation as a site in dist/site, by VitePress.

Usage: deno task docs

It needs npm, and downloads the packages of docs/site/package-lock.json.`);
  Deno.exitCode = npm("ci", "--no-audit", "--no-fund") || npm("run", "build");
}
