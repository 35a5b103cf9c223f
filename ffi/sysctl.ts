/**
 * Kernel parameters under /proc/sys, of the calling thread's namespace.
 *
 * Keys have slashes, as in `net/ipv4/conf/eth0.100/forwarding`, because
 * interface names may contain dots.
 *
 * @module
 */

const ROOT = "/proc/sys/";

/**
 * Reads a parameter, without the trailing newline.
 *
 * @throws {Deno.errors.NotFound} If the kernel has no such parameter
 */
export function readSysctl(key: string): string {
  return Deno.readTextFileSync(ROOT + key).trimEnd();
}

/**
 * Writes a parameter.
 *
 * @throws {Deno.errors.NotFound} If the kernel has no such parameter
 */
export function writeSysctl(key: string, value: string): void {
  Deno.writeTextFileSync(ROOT + key, value, { create: false });
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
