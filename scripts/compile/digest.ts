/**
 * Digests of files, and of files that a build takes from others: `digests.json` has
 * them by version and machine. `deno` is the executable of the npm package, `denort`
 * the archive that `deno compile` downloads.
 *
 * @module
 */

import known from "./digests.json" with { type: "json" };
import type { Target } from "./target.ts";

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
