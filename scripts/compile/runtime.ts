/**
 * The runtime that goes into an executable: the real `denort` where it can be had,
 * else a stand-in that is made of an ordinary deno; for another machine, of the deno
 * of the npm registry. `digests.json` has the digests of these files by version and
 * machine: `deno` is the executable of the npm package, `denort` the archive that
 * `deno compile` downloads.
 *
 * @module
 */

import { exists } from "../../base/files/io.ts";
import { makeDenortFile } from "../mkdenort/mod.ts";
import { isReachable } from "../import_flags.ts";
import known from "./digests.json" with { type: "json" };
import {
  findChangeTime,
  findDenoDirectory,
  ROOT,
  runDeno,
} from "../project.ts";
import { getOwnTarget, namesOf, type Target } from "./target.ts";

/**
 * Flags for a program that usually lives for some 30 ms.
 *
 * - without helper threads, for which the main thread waits longer than they help
 * - without optimizing the registers of the interpreter's code: nothing runs often
 *   enough to win back what that takes
 * - optimizing only what has run 2000 times: with V8's 400, a process of one call
 *   takes 7 % longer, and the daemon is not faster for it
 * - without collecting garbage before there are 16 MiB of it, which is never
 * - compiling the parts of the script that are loaded, which `eval` does, at
 *   once and not function by function, for most of each is run
 */
export const V8_FLAGS: readonly string[] = [
  "--single-threaded",
  "--no-ignition-reo",
  "--invocation-count-for-maglev=2000",
  "--min-semi-space-size=16",
  "--max-semi-space-size=16",
  "--no-lazy-eval",
];

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
    await makeDenortFile(path, standIn, V8_FLAGS);
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
  if (await findChangeTime(`${findDenoDirectory()}/dl/${file}`) !== undefined) {
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
  const path = `${findDenoDirectory()}/dl/${nameDenort(target)}`;
  if (await findChangeTime(path) === undefined) return;
  await checkDigest({ kind: "denort", version, target, path });
}

async function listOwnSources(): Promise<string[]> {
  const directory = `${ROOT}scripts/mkdenort`;
  const sources = [decodeURIComponent(new URL(import.meta.url).pathname)];
  for await (const { name, isFile } of Deno.readDir(directory)) {
    if (isFile && !/_test\.ts$/.test(name)) {
      sources.push(`${directory}/${name}`);
    }
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

/** A deno, and its version. */
interface FetchedDeno {
  readonly path: string;
  readonly version: string;
}

const CACHE = `${ROOT}build/deno_dir`;

/**
 * Returns a deno for a target: of the running version, or where the registry
 * has none for that machine, of the newest of the same series.
 *
 * It is kept under `build/`, and asked for again only while the versions differ.
 *
 * @param signal Ends the wait for the registry
 * @throws {Error} If it was never fetched and the registry is out of reach, or if it is not the one whose digest is kept
 */
export async function fetchDeno(
  target: Target,
  signal?: AbortSignal,
): Promise<FetchedDeno> {
  const wanted = Deno.version.deno;
  const cached = findFetched(target);
  if (cached?.version === wanted) {
    await checkDigest({ kind: "deno", target, ...cached });
    return cached;
  }
  let failure: unknown;
  for (const version of [wanted, wanted.replace(/\.\d+$/, "")]) {
    try {
      const specifier = `npm:${namesOf(target).npmPackage}@${version}`;
      await runDeno(["cache", "--no-config", specifier], {
        env: { DENO_DIR: CACHE },
        signal,
      });
      break;
    } catch (error) {
      failure ??= error;
    }
  }
  const fetched = findFetched(target);
  if (fetched !== undefined) {
    await checkDigest({ kind: "deno", target, ...fetched });
    return fetched;
  }
  throw new Error(`Cannot fetch deno ${wanted} for "${target}"`, {
    cause: failure,
  });
}

/** Finds the newest fetched deno of the running series. */
function findFetched(target: Target): FetchedDeno | undefined {
  // npm/<registry>/<package>/<version>/deno
  const found = listDirectory(`${CACHE}/npm`).flatMap((registry) => {
    const directory = `${CACHE}/npm/${registry}/${namesOf(target).npmPackage}`;
    return listDirectory(directory).filter(isSameSeries)
      .map((version) => ({ path: `${directory}/${version}/deno`, version }));
  }).filter(({ path }) => exists(path));
  return found.sort((a, b) => patchOf(b.version) - patchOf(a.version))[0];
}

function isSameSeries(version: string): boolean {
  const series = (text: string): string => text.replace(/\.\d+$/, "");
  return series(version) === series(Deno.version.deno);
}

function patchOf(version: string): number {
  return Number(version.split(".").at(-1));
}

function listDirectory(path: string): string[] {
  if (!exists(path) || !Deno.statSync(path).isDirectory) return [];
  return [...Deno.readDirSync(path)].map(({ name }) => name);
}

/** A file of Deno's. */
interface DenoFile {
  readonly kind: keyof typeof known;
  readonly version: string;
  readonly target: Target;
  readonly path: string;
}

/** Returns the SHA-256 of a file, in hexadecimal digits. */
export async function hexOfFile(path: string): Promise<string> {
  const bytes = await Deno.readFile(path);
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}

/**
 * Checks that a file is the one whose digest is kept.
 *
 * @throws {Error} If it is not, or if no digest is kept
 */
export async function checkDigest(
  { kind, version, target, path }: DenoFile,
  digests: Readonly<Record<string, string>> = known[kind],
): Promise<void> {
  const expected = digests[`${version} ${target}`];
  const found = await hexOfFile(path);
  if (found === expected) return;
  const what = `${kind} ${version} for ${target}`;
  throw new Error(
    expected === undefined
      ? `Cannot use ${what}: its SHA-256 is ${found}, and scripts/compile/digests.json has none; compare it with another source, then add it`
      : `Cannot use ${what}: expected SHA-256 ${expected}, found ${found} ("${path}")`,
  );
}
