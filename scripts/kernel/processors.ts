/**
 * Processors of the machine.
 *
 * @module
 */

/**
 * Lists the processors that this process may use, from 0.
 *
 * Source: man7.org/linux/man-pages/man5/proc_pid_status.5.html
 * `Cpus_allowed_list`; the format is that of cpuset(7).
 */
export function listProcessors(): number[] {
  const status = Deno.readTextFileSync("/proc/self/status");
  return parseProcessors(/^Cpus_allowed_list:\t(.*)$/m.exec(status)?.[1] ?? "");
}

/** Reads a list such as `0-2,7`. */
export function parseProcessors(list: string): number[] {
  return list.split(",").filter((range) => range !== "").flatMap((range) => {
    const [first = 0, last = first] = range.split("-").map(Number);
    return Array.from(
      { length: last - first + 1 },
      (_, index) => first + index,
    );
  });
}
