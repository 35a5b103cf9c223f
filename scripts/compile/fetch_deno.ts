/**
 * Gets an ordinary `deno` of another machine from the npm registry.
 *
 * @module
 */

import { exists } from "../../base/files/io.ts";
import { checkDigest } from "./digest.ts";
import { ROOT, runDeno } from "./project.ts";
import { npmPackageOf, type Target } from "./target.ts";

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
      const specifier = `npm:${npmPackageOf(target)}@${version}`;
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
    const directory = `${CACHE}/npm/${registry}/${npmPackageOf(target)}`;
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
