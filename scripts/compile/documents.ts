/**
 * Files beside the executables: digests, and a bill of materials.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import project from "../../deno.json" with { type: "json" };
import { formatChecksum } from "../release/archive.ts";
import { listComponents } from "../release/components.ts";
import { formatSbom, NAME } from "../release/sbom.ts";
import type { CompileResult } from "./executables.ts";
import type { Program } from "./programs.ts";
import { findChangeTime } from "../project.ts";

/** The files' names. */
const SUMS = "SHA256SUMS", SBOM = "sbom.cdx.json";

/**
 * Writes `SHA256SUMS` beside executables, and `sbom.cdx.json`, which has no time:
 * the same sources give the same bytes. Digests of other files in the directory stay.
 *
 * @param programs What was compiled, if not the project's: such an executable has no bill of materials, because only its author knows what is in it
 * @returns Their paths
 */
export async function writeDocuments(
  { executables, denoVersion }: CompileResult,
  programs?: readonly Program[],
): Promise<string[]> {
  const files = executables.flatMap(({ path, linkTo }) =>
    linkTo === undefined ? [path] : []
  );
  const directory = dirname(files[0] ?? "");
  const written = [`${directory}/${SUMS}`];
  if (programs === undefined) {
    const about = { name: NAME, version: project.version };
    const path = `${directory}/${SBOM}`;
    const components = await listComponents(denoVersion);
    await Deno.writeTextFile(path, formatSbom(about, components));
    files.push(path);
    written.push(path);
  }
  await Deno.writeTextFile(`${directory}/${SUMS}`, await sum(directory, files));
  return written;
}

/** Returns the lines of `SHA256SUMS`, with those of other files that are there. */
async function sum(
  directory: string,
  paths: readonly string[],
): Promise<string> {
  const lines = new Map<string, string>();
  for (const line of await readLines(`${directory}/${SUMS}`)) {
    const path = `${directory}/${line.slice(66)}`;
    if (await findChangeTime(path) !== undefined) lines.set(path, `${line}\n`);
  }
  // One after the other: an executable is 95 MiB.
  for (const path of paths) lines.set(path, await formatChecksum(path));
  return [...lines].toSorted().map(([, line]) => line).join("");
}

async function readLines(path: string): Promise<string[]> {
  if (await findChangeTime(path) === undefined) return [];
  return (await Deno.readTextFile(path)).split("\n").filter(Boolean);
}
