/**
 * Builds the documentation as a site in dist/site: `deno task docs`. Imports
 * nothing that needs jsr.io.
 *
 * @module
 */

import project from "../deno.json" with { type: "json" };
import { answerHelp } from "./help.ts";

const FOLDER = new URL("../docs/site/", import.meta.url);

const ROOT = new URL("../", import.meta.url);

/** Runs a program in a folder. Returns its exit code. */
function run(cwd: URL, program: string, ...args: readonly string[]): number {
  const { code } = new Deno.Command(program, {
    args: [...args],
    cwd,
    stdin: "inherit",
    stdout: "inherit",
    stderr: "inherit",
  }).outputSync();
  return code;
}

/** Writes the reference of the modules that deno.json exports to dist/site/api. */
function documentApi(): number {
  const { name, exports } = project;
  return run(
    ...[ROOT, Deno.execPath(), "run", "-A", "--no-config"] as const,
    ...["scripts/deno.ts", "doc", "--html", `--name=${name}`],
    ...["--output=dist/site/api", ...Object.values(exports)],
  );
}

if (import.meta.main) {
  answerHelp(
    `Build the documentation as a site in dist/site: the pages by VitePress, and the
reference of the library by deno doc.

Usage: deno task docs

It needs npm, and downloads the packages of docs/site/package-lock.json.`,
  );
  Deno.exitCode = run(FOLDER, "npm", "ci", "--no-audit", "--no-fund") ||
    run(FOLDER, "npm", "run", "build") || documentApi();
}
