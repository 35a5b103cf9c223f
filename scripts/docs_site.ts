/**
 * Builds the documentation as a site in dist/site: `deno task docs`. Imports
 * nothing that needs jsr.io.
 *
 * @module
 */

import project from "../deno.json" with { type: "json" };
import { answerHelp } from "./command_line.ts";

const DIRECTORY = new URL("../docs/site/", import.meta.url);

const ROOT = new URL("../", import.meta.url);

/** Runs a program in a directory. Returns its exit code. */
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

/**
 * Installs the site's packages, from npm's cache as far as they are in it. Without
 * retries, npm says at once that it cannot reach the registry.
 */
export function installPackages(): number {
  const flags = ["--prefer-offline", "--fetch-retries=0"];
  const args = ["ci", ...flags, "--no-audit", "--no-fund"];
  if (run(DIRECTORY, "npm", ...args) === 0) return 0;
  console.error(
    "deno task docs needs the packages of docs/site/package-lock.json: run it " +
      "once with a network, or set npm_config_registry to a registry in reach",
  );
  return 1;
}

/**
 * Writes the pages as a site.
 *
 * @param directory Where to; dist/site without it
 */
export function buildPages(directory?: string): number {
  const where = directory === undefined ? [] : ["--", "--outDir", directory];
  return run(DIRECTORY, "npm", "run", "pages") || completePages() ||
    run(DIRECTORY, "npm", "run", "build", ...where);
}

/** Adds to the copies of the pages what is made from the source. */
function completePages(): number {
  return run(
    ...[ROOT, Deno.execPath(), "run", "-A", "--no-config"] as const,
    ...["scripts/deno.ts", "run", "-A", "scripts/schemas/site_pages.ts"],
    "docs/site/.pages",
  );
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

It needs npm, and downloads the packages of docs/site/package-lock.json. Without
a network, they have to be in npm's cache.`,
  );
  Deno.exitCode = installPackages() ||
    buildPages() || documentApi();
}
