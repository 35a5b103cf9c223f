/**
 * Kernel parameters under /proc/sys, of the calling thread's namespace.
 *
 * Keys contain slashes, as in `net/ipv4/conf/eth0.100/forwarding`, because interface
 * names can contain dots.
 *
 * @module
 */

import { checkChange } from "./change_check.ts";
import { isSystemError } from "./errno.ts";

const ROOT = "/proc/sys/";
/** The kernel returns a parameter as a whole, in at most a page. */
const PAGE_BYTES = 4096;
const decoder = new TextDecoder();

/**
 * Reads a parameter, without the trailing newline.
 *
 * @throws {Deno.errors.NotFound} If the kernel has no such parameter
 */
export function readSysctl(key: string): string {
  using file = Deno.openSync(ROOT + key);
  const buffer = new Uint8Array(PAGE_BYTES);
  const length = file.readSync(buffer) ?? 0;
  return decoder.decode(buffer.subarray(0, length)).trimEnd();
}

/**
 * Writes a parameter.
 *
 * @throws {Deno.errors.NotFound} If the kernel has no such parameter
 */
export function writeSysctl(key: string, value: string): void {
  checkChange();
  Deno.writeTextFileSync(ROOT + key, value, { create: false });
}

/**
 * Writes a parameter if possible: the kernel might lack it, for example without IPv6,
 * and /proc/sys might be read-only.
 */
export function tryWriteSysctl(key: string, value: string): void {
  try {
    writeSysctl(key, value);
  } catch (error) {
    if (!isSystemError(error)) throw error;
  }
}

/**
 * Writes a parameter unless it already has the value: some writes have side
 * effects even if the value stays the same.
 *
 * @throws {Deno.errors.NotFound} If the kernel has no such parameter
 */
export function ensureSysctl(key: string, value: string): void {
  if (readSysctl(key) !== value) writeSysctl(key, value);
}

/**
 * Reports whether a parameter exists and can be written: /proc/sys might be
 * read-only.
 */
export function isWritableSysctl(key: string): boolean {
  try {
    Deno.openSync(ROOT + key, { write: true }).close();
    return true;
  } catch (error) {
    if (!isSystemError(error)) throw error;
    return false;
  }
}

/**
 * Lists the names in a directory of parameters, such as the links in
 * `net/ipv4/conf`.
 *
 * @throws {Deno.errors.NotFound} If the kernel has no such directory
 */
export function listSysctls(directory: string): string[] {
  return [...Deno.readDirSync(ROOT + directory)].map(({ name }) => name);
}

/**
 * Reports whether a parameter can be read. Some parameters, such as
 * `net/ipv4/route/flush`, can only be written.
 *
 * @throws {Deno.errors.NotFound} If the kernel has no such parameter
 */
export function isReadableSysctl(key: string): boolean {
  return ((Deno.statSync(ROOT + key).mode ?? 0) & 0o444) !== 0;
}
