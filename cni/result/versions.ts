/**
 * Shapes of results, and the versions that share them.
 *
 * There are three shapes: one address per IP version (0.1.0 and 0.2.0), lists
 * (0.3.0 to 0.4.0), and lists whose addresses do not repeat their IP version
 * (1.0.0 and 1.1.0). `decoding.ts` reads each shape into the {@linkcode Result} of
 * `result.ts`, and `encoding.ts` prints it in any of them.
 *
 * Source: containernetworking/cni pkg/types/{020,040,100}/types.go.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";

/** The shapes and their versions, oldest first. */
const VERSIONS = {
  // Plugins that only support 0.1.0 do not name a version.
  pair: ["", "0.1.0", "0.2.0"],
  versionedLists: ["0.3.0", "0.3.1", "0.4.0"],
  lists: ["1.0.0", "1.1.0"],
} as const satisfies Record<string, readonly string[]>;

/** Name of a shape. */
export type ResultShape = keyof typeof VERSIONS;

/**
 * Finds the shape of results of a version.
 *
 * @throws {CniError} 1 for an unknown version
 */
export function getResultShape(version: string): ResultShape {
  const found = Object.entries(VERSIONS).find(([, versions]) =>
    (versions as readonly string[]).includes(version)
  );
  if (found !== undefined) return found[0] as ResultShape;
  throw new CniError(
    ErrorCode.IncompatibleVersion,
    `unsupported CNI result version "${version}"`,
  );
}

/** Lists the versions whose results have a shape, oldest first. */
export function listVersionsOf(shape: ResultShape): readonly string[] {
  return VERSIONS[shape];
}

/**
 * Reports whether two versions share a shape, so that a plugin called in one can
 * read the other as prevResult.
 */
export function haveSameShape(left: string, right: string): boolean {
  return Object.values<readonly string[]>(VERSIONS).some((versions) =>
    versions.includes(left) && versions.includes(right)
  );
}
