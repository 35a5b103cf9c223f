/**
 * Finds the iptables programs of a host, without running them.
 *
 * @module
 */

import { isErrno } from "../../../../ffi/errno.ts";
import { Fd } from "../../../../ffi/file/fd.ts";
import type { IpFamily } from "../../../../net/ip.ts";

/** Directories that are searched after PATH. */
const DIRECTORIES: readonly string[] = [
  "/usr/sbin",
  "/sbin",
  "/usr/local/sbin",
];

const NAMES: Readonly<Record<IpFamily, string>> = {
  4: "iptables",
  6: "ip6tables",
};

/** The host or its kernel lacks a requirement of a backend. */
export class BackendMissing extends Error {
  override readonly name = "BackendMissing";
}

/** Reports whether an error means that the host does not support a backend. */
export function isLacking(error: unknown): boolean {
  return error instanceof BackendMissing || error instanceof RangeError ||
    // The kernel's errors for unknown expressions, families and flags.
    isErrno(error, "ENOENT", "EOPNOTSUPP", "EAFNOSUPPORT", "EINVAL", "EPERM");
}

/** The two forms in which the kernel holds rules of iptables. */
export type Variant = "nft" | "legacy";

/** An installed program. */
export interface IptablesProgram {
  readonly path: string;
  /** The variant; undefined if it cannot be determined, for example for a script. */
  readonly variant: Variant | undefined;
}

/** Finds the administrator's preferred iptables of a family. */
export function findIptables(
  family: IpFamily,
  path: string | undefined,
): IptablesProgram | undefined {
  return findProgram(NAMES[family], path);
}

/**
 * Finds the administrator's preferred iptables, if it might contain rules of a
 * variant.
 */
export function findPreferred(
  variant: Variant,
  family: IpFamily,
  path: string | undefined,
): IptablesProgram | undefined {
  const preferred = findIptables(family, path);
  const isPossible = [variant, undefined].includes(preferred?.variant);
  return isPossible ? preferred : undefined;
}

/** Finds an iptables of a family that might contain rules of a variant. */
export function findVariant(
  variant: Variant,
  family: IpFamily,
  path: string | undefined,
): IptablesProgram | undefined {
  const preferred = findIptables(family, path);
  if (preferred?.variant === variant) return preferred;
  const named = findProgram(`${NAMES[family]}-${variant}`, path);
  if (named !== undefined) return named;
  return preferred?.variant === undefined ? preferred : undefined;
}

/**
 * Returns the administrator's preferred iptables of a family.
 *
 * @throws {BackendMissing} If it is not installed
 */
export function getIptables(
  family: IpFamily,
  path: string | undefined,
): IptablesProgram {
  const found = findIptables(family, path);
  if (found !== undefined) return found;
  throw new BackendMissing(`the host has no ${NAMES[family]}`);
}

/**
 * Finds a program in PATH, or in the directories of administrators' programs.
 *
 * @param path The value of PATH
 */
export function findProgram(
  name: string,
  path = "",
): IptablesProgram | undefined {
  const directories = [...path.split(":").filter(Boolean), ...DIRECTORIES];
  const found = directories.map((directory) => `${directory}/${name}`).find(
    isThere,
  );
  if (found === undefined) return undefined;
  return { path: found, variant: variantOf(Deno.realPathSync(found)) };
}

/** Reports whether a file exists. A failing call of Deno takes ten times as long. */
function isThere(path: string): boolean {
  try {
    using _file = Fd.atPath(path);
    return true;
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR", "EACCES", "ELOOP")) return false;
    throw error;
  }
}

/** Source: iptables iptables/Makefile.am. The nft variant exists since 1.8. */
function variantOf(path: string): Variant | undefined {
  if (path.endsWith("/xtables-nft-multi")) return "nft";
  const isLegacy = /\/xtables-(legacy-)?multi$/.test(path);
  return isLegacy ? "legacy" : undefined;
}
