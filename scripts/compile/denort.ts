/**
 * Decides which runtime goes into an executable: the real `denort` where it can
 * be had, else a stand-in.
 *
 * @module
 */

import { makeDenortFile } from "../mkdenort/mod.ts";
import { isReachable } from "../net.ts";
import { checkDigest } from "./digest.ts";
import { fetchDeno } from "./fetch_deno.ts";
import { findChangeTime, ROOT } from "./project.ts";
import { getOwnTarget, type Target } from "./target.ts";
import { V8_FLAGS } from "./v8_flags.ts";

/** A runtime, and what to tell the user of it. */
export interface Denort {
  /** Variables for `deno compile`. */
  readonly env: Readonly<Record<string, string>>;
  /** The version of Deno that it is. */
  readonly version: string;
  /** One line, or nothing if all is as usual. */
  readonly note?: string;
}

/**
 * Provides the runtime for a target.
 *
 * `deno compile` finds the real one itself: at DENORT_BIN, in deno's cache, or
 * on dl.deno.land unless `OFFLINE=1`. A stand-in is made once for each version
 * of deno, and again when a part of `mkdenort` has changed.
 *
 * @throws {Error} If it does not exist, and the deno to make it from cannot be fetched
 */
export async function provideDenort(target: Target): Promise<Denort> {
  if (await isDenortAvailable(target)) {
    return { env: {}, version: Deno.version.deno };
  }
  const { path, version } = target === getOwnTarget()
    ? { path: Deno.execPath(), version: Deno.version.deno }
    : await fetchDeno(target);
  const standIn = `${ROOT}build/denort-${version}-${target}`;
  if (!await isNewer(standIn, [path, ...await listOwnSources()])) {
    await Deno.mkdir(`${ROOT}build`, { recursive: true });
    await makeDenortFile(path, standIn, { v8Flags: V8_FLAGS });
  }
  return {
    env: { DENORT_BIN: standIn },
    version,
    note: `denort is out of reach: using a stand-in made from deno ${version}`,
  };
}

async function isDenortAvailable(target: Target): Promise<boolean> {
  if (Deno.env.get("DENORT_BIN")) return true;
  const file = nameDenort(target);
  if (await findChangeTime(`${getDenoDir()}/dl/${file}`) !== undefined) {
    return true;
  }
  if (Deno.env.get("OFFLINE") === "1") return false;
  return await isReachable(`https://dl.deno.land/${file}`);
}

function nameDenort(target: Target): string {
  return `release/v${Deno.version.deno}/denort-${target}.zip`;
}

/**
 * Checks that the runtime for a target is the one whose digest is kept: denort if
 * `deno compile` has downloaded it, else the deno of the stand-in.
 *
 * @throws {Error} If it is not, or if DENORT_BIN names another
 */
export async function checkRuntime(target: Target): Promise<void> {
  if (Deno.env.get("DENORT_BIN")) {
    throw new Error("Cannot release with DENORT_BIN: its digest is not known");
  }
  const version = Deno.version.deno;
  const own = { version, target: getOwnTarget(), path: Deno.execPath() };
  await checkDigest({ kind: "deno", ...own });
  const path = `${getDenoDir()}/dl/${nameDenort(target)}`;
  if (await findChangeTime(path) === undefined) return;
  await checkDigest({ kind: "denort", version, target, path });
}

/** Returns deno's cache directory. */
function getDenoDir(): string {
  const { DENO_DIR, XDG_CACHE_HOME, HOME } = Deno.env.toObject();
  return DENO_DIR || `${XDG_CACHE_HOME || `${HOME}/.cache`}/deno`;
}

async function listOwnSources(): Promise<string[]> {
  const directory = `${ROOT}scripts/mkdenort`;
  const sources = [`${ROOT}scripts/compile/v8_flags.ts`];
  for await (const { name } of Deno.readDir(directory)) {
    if (!/_(test|sample)\.ts$/.test(name)) sources.push(`${directory}/${name}`);
  }
  return sources;
}

/** Reports whether a file exists and is newer than all of the others. */
async function isNewer(
  file: string,
  others: readonly string[],
): Promise<boolean> {
  const made = await findChangeTime(file);
  if (made === undefined) return false;
  const times = await Promise.all(others.map(findChangeTime));
  return times.every((time) => time !== undefined && time <= made);
}
