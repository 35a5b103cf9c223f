/**
 * The state of a process in /proc.
 *
 * @module
 */

/** The fields of `/proc/PID/stat`. */
export interface ProcessStat {
  /** The name of its program, up to 15 bytes. */
  readonly program: string;
  /** The state, a letter such as `T` for a stopped process. */
  readonly state: string;
  /** The process ID of its parent. */
  readonly parent: number;
  /** When it was started, in clock ticks since the boot. */
  readonly startTicks: string;
}

/**
 * Reads the fields of `/proc/PID/stat`.
 *
 * Source: proc_pid_stat(5), fields 2, 3, 4 and 22.
 *
 * @throws {Error} If the process has exited, or /proc does not show it
 */
export function readProcessStat(pid: number, proc = "/proc"): ProcessStat {
  const text = Deno.readTextFileSync(`${proc}/${pid}/stat`);
  // The name is in parentheses, and can contain blanks and parentheses itself.
  const end = text.lastIndexOf(")");
  const program = text.slice(text.indexOf("(") + 1, end);
  const fields = text.slice(end + 2).split(" ");
  const [state = "", parent = ""] = fields;
  return {
    program,
    state,
    parent: Number(parent),
    startTicks: fields[19] ?? "",
  };
}
