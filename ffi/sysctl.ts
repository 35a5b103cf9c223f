/**
 * Kernel parameters under /proc/sys, of the namespace the thread is in.
 *
 * Keys are written with slashes, `net/ipv4/conf/eth0.100/forwarding`, since
 * interface names may hold dots.
 *
 * @module
 */

const ROOT = "/proc/sys/";

/**
 * Reads one parameter, without the line's end.
 *
 * @throws {Deno.errors.NotFound} If the kernel has no such parameter
 */
export function readSysctl(key: string): string {
  return Deno.readTextFileSync(ROOT + key).trimEnd();
}

/**
 * Writes one parameter.
 *
 * @throws {Deno.errors.NotFound} If the kernel has no such parameter
 */
export function writeSysctl(key: string, value: string): void {
  Deno.writeTextFileSync(ROOT + key, value, { create: false });
}

/**
 * Writes one parameter unless it already has the value: some writes have side
 * effects even when they change nothing.
 *
 * @throws {Deno.errors.NotFound} If the kernel has no such parameter
 */
export function ensureSysctl(key: string, value: string): void {
  if (readSysctl(key) !== value) writeSysctl(key, value);
}
