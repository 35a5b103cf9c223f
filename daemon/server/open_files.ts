/**
 * How connections and calls share the limit of open files.
 *
 * @module
 */

/**
 * Files that a call has open at the same time: namespaces, sockets, locks,
 * pipes.
 */
const FILES_OF_CALL = 10;

/** Bounds that leave a daemon enough files. */
export interface OpenFileBounds {
  readonly maxConnections: number;
  /** Over TCP. */
  readonly maxStateConnections: number;
  readonly maxCalls: number;
  /** Calls that run or, after they have begun, wait. */
  readonly maxBegun: number;
}

/**
 * Divides the files that this process can still open: a quarter for connections, of
 * which a quarter is for TCP, and the rest for calls.
 *
 * @param wanted The bounds without a limit of open files
 * @param free How many files; read from /proc if undefined
 */
export function limitByOpenFiles(
  wanted: OpenFileBounds,
  free = countFree(),
): OpenFileBounds {
  const limit = (count: number, share: number): number =>
    Math.max(1, Math.min(count, Math.floor(share)));
  return {
    maxConnections: limit(wanted.maxConnections, free * 3 / 16),
    maxStateConnections: limit(wanted.maxStateConnections, free / 16),
    maxCalls: limit(wanted.maxCalls, free * 3 / 4 / FILES_OF_CALL),
    maxBegun: limit(wanted.maxBegun, free * 3 / 4 / FILES_OF_CALL),
  };
}

/** Source: proc_pid_limits(5), proc_pid_fd(5). */
function countFree(): number {
  const limits = Deno.readTextFileSync("/proc/self/limits");
  const [, soft] = /^Max open files +(\d+|unlimited)/m.exec(limits) ?? [];
  const open = [...Deno.readDirSync("/proc/self/fd")].length;
  return soft === undefined || soft === "unlimited"
    ? Infinity
    : Number(soft) - open;
}
