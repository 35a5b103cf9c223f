/**
 * Making executables only if what they are made of has changed.
 *
 * @module
 */

import { PROGRAM_SOURCES } from "./bundle.ts";
import { writeSbom } from "./sbom.ts";
import { compile, getDefaultOut } from "./executables.ts";
import { multiCall } from "./programs.ts";
import { findChangeTime, ROOT } from "../project.ts";
import { getOwnTarget } from "./target.ts";

/** What the executables depend on: the programs, and how they are made. */
const SOURCES = [
  ...PROGRAM_SOURCES,
  "launcher/objects",
  "scripts/mkdenort",
  "scripts/prelink",
  "scripts/stubs",
  "scripts/compile",
  "scripts/compile.ts",
] as const;

/**
 * Makes all plugins for the running machine, unless they are there and newer
 * than their sources.
 *
 * Processes that call it at the same time wait for the first of them.
 *
 * @returns The directory of the executables
 * @throws {Error} As {@linkcode compile}
 */
export async function ensureCompiled(): Promise<string> {
  await Deno.mkdir(`${ROOT}build`, { recursive: true });
  using lock = await Deno.open(`${ROOT}build/compile.lock`, {
    create: true,
    write: true,
  });
  await lock.lock(true);
  const directory = getDefaultOut(getOwnTarget());
  if (await isUpToDate(directory)) return directory;
  await writeSbom(await compile());
  return directory;
}

async function isUpToDate(directory: string): Promise<boolean> {
  const names = [multiCall.name, ...multiCall.links];
  const made = await Promise.all(
    names.map((name) => findChangeTime(`${directory}/${name}`)),
  );
  const oldest = Math.min(...made.map((time) => time ?? 0));
  for (const source of SOURCES) {
    if (await findNewestChange(ROOT + source) > oldest) return false;
  }
  return true;
}

/** Returns the modification time of a file, or the latest one in a directory without tests; 0 if nothing exists. */
async function findNewestChange(path: string): Promise<number> {
  const time = await findChangeTime(path) ?? 0;
  if (time === 0 || !(await Deno.stat(path)).isDirectory) return time;
  let newest = time;
  for await (const { name } of Deno.readDir(path)) {
    if (/^testing(\.ts)?$|_test\.ts$/.test(name)) continue;
    newest = Math.max(newest, await findNewestChange(`${path}/${name}`));
  }
  return newest;
}
