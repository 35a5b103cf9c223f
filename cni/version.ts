/**
 * CNI specification versions: the list, their order, and what each command needs.
 *
 * @module
 */

/** All released versions of the specification, oldest first. */
export const SPEC_VERSIONS = [
  "0.1.0",
  "0.2.0",
  "0.3.0",
  "0.3.1",
  "0.4.0",
  "1.0.0",
  "1.1.0",
] as const;

/** A supported version of the specification. */
export type SpecVersion = typeof SPEC_VERSIONS[number];

/** The default version of answers. */
export const CURRENT_VERSION: SpecVersion = "1.1.0";

/** The meaning of an absent or empty cniVersion. */
export const DEFAULT_VERSION: SpecVersion = "0.1.0";

/** The first version that has a command; the other commands are in all versions. */
export const COMMAND_SINCE = {
  CHECK: "0.4.0",
  GC: "1.1.0",
  STATUS: "1.1.0",
} as const satisfies Record<string, SpecVersion>;

/** Reports whether `version` is exactly one of {@linkcode SPEC_VERSIONS}. */
export function isSpecVersion(version: string): version is SpecVersion {
  return (SPEC_VERSIONS as readonly string[]).includes(version);
}

/**
 * Lists the versions from `minimum` on, oldest first, for plugins that need a
 * feature of `minimum`.
 */
export function listVersionsFrom(minimum: SpecVersion): readonly SpecVersion[] {
  return SPEC_VERSIONS.slice(SPEC_VERSIONS.indexOf(minimum));
}

/**
 * Splits a version into three numbers. Missing parts are 0; "" is 0.1.0.
 *
 * Source: containernetworking/cni pkg/version/plugin.go `ParseVersion`.
 *
 * @throws {RangeError} If the text is not one to three decimal integers joined by dots
 */
export function parseVersion(version: string): [number, number, number] {
  const parts = (version === "" ? DEFAULT_VERSION : version).split(".");
  if (parts.length > 3 || !parts.every(isInteger)) {
    throw new RangeError(`Cannot parse version "${version}"`);
  }
  const [major = 0, minor = 0, micro = 0] = parts.map(Number);
  return [major, minor, micro];
}

function isInteger(text: string): boolean {
  return /^[+-]?\d+$/.test(text) && Number.isSafeInteger(Number(text));
}

/**
 * Orders two versions.
 *
 * @returns Negative, zero or positive, as for `Array.prototype.sort`
 * @throws {RangeError} If either text is not a version
 */
export function compareVersions(left: string, right: string): number {
  const leftParts = parseVersion(left);
  const rightParts = parseVersion(right);
  return leftParts[0] - rightParts[0] || leftParts[1] - rightParts[1] ||
    leftParts[2] - rightParts[2];
}

/** Reports whether `version` is `minimum` or newer; both must be parsable. */
export function isAtLeast(version: string, minimum: string): boolean {
  return compareVersions(version, minimum) >= 0;
}
