/**
 * Finding out which iptables a host has, without running it.
 *
 * @module
 */

import { isErrno } from "../../../ffi/errno.ts";
import { Fd } from "../../../ffi/fd.ts";
import * as libc from "../../../ffi/libc.ts";
import type { IpFamily } from "../../../net/ip.ts";

/** Where the programs are if PATH does not lead to them. */
const FOLDERS: readonly string[] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];
/** Source: include/uapi/asm-generic/fcntl.h. */
const O_PATH = 0o10000000, O_CLOEXEC = 0o2000000;

const NAMES: Readonly<Record<IpFamily, string>> = {
  4: "iptables",
  6: "ip6tables",
};

/** That the host or its kernel lacks what a backend needs. */
export class BackendMissing extends Error {
  override readonly name = "BackendMissing";
}

/** The two ways in which rules of iptables are in the kernel. */
export type Variant = "nft" | "legacy";

/** A program that is there. */
export interface Program {
  readonly path: string;
  /** undefined for a program that is neither, such as a script. */
  readonly variant: Variant | undefined;
}

/** Finds the iptables of a family that the administrator prefers. */
export function findIptables(
  family: IpFamily,
  path: string | undefined,
): Program | undefined {
  return findProgram(NAMES[family], path);
}

/** Finds an iptables of a family that may have legacy rules. */
export function findLegacyIptables(
  family: IpFamily,
  path: string | undefined,
): Program | undefined {
  const legacy = findProgram(`${NAMES[family]}-legacy`, path);
  if (legacy !== undefined) return legacy;
  const preferred = findIptables(family, path);
  return preferred?.variant === "nft" ? undefined : preferred;
}

/** @param path PATH */
function findProgram(name: string, path = ""): Program | undefined {
  const folders = [...path.split(":").filter(Boolean), ...FOLDERS];
  const found = folders.map((folder) => `${folder}/${name}`).find(isThere);
  if (found === undefined) return undefined;
  return { path: found, variant: variantOf(Deno.realPathSync(found)) };
}

/** A failed call of Deno's would cost ten times as much. */
function isThere(path: string): boolean {
  try {
    using _file = new Fd(libc.open(path, O_PATH | O_CLOEXEC));
    return true;
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR", "EACCES", "ELOOP")) return false;
    throw error;
  }
}

/** Source: iptables iptables/Makefile.am; before 1.8 there was no nft variant. */
function variantOf(path: string): Variant | undefined {
  if (path.endsWith("/xtables-nft-multi")) return "nft";
  const isLegacy = /\/xtables-(legacy-)?multi$/.test(path);
  return isLegacy ? "legacy" : undefined;
}
