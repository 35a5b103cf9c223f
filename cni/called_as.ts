/**
 * The name under which this process was started.
 *
 * @module
 */

/** Returns the name without folders. Deno.execPath() would follow links. */
export function calledAs(): string {
  const [argv0 = ""] = Deno.readTextFileSync("/proc/self/cmdline").split("\0");
  return argv0.slice(argv0.lastIndexOf("/") + 1);
}
