/**
 * The state of a call when the launcher starts deno. The launcher has read stdin, and
 * replaces it with a file in memory, whose name is the state.
 *
 * Source: `launcher/call.c`; memfd_create(2).
 *
 * @module
 */

/** The names of the file. */
export const StdinName = {
  /** The launcher cannot determine which daemon to use. */
  notAsked: "cni-stdin",
  /** No daemon that can be trusted listens at the first socket. */
  noDaemon: "cni-no-daemon",
  /** The daemon is turned off (`daemon/wire/daemon_timeouts.ts`). */
  off: "cni-off",
  /** This process runs the call locally: the daemon declined it, or the call must not use a daemon. */
  local: "cni-local",
  /** This process runs the call locally: the daemon did not take it in time. */
  timeout: "cni-timeout",
  /** As `timeout`, with the short time limit after a timeout of another call. */
  shortTimeout: "cni-short",
  /** The connection ended after the daemon had taken the call. */
  lost: "cni-lost",
  /** The daemon took the call, and no longer sends anything. */
  silent: "cni-silent",
} as const;

/**
 * O_APPEND, which has no effect on a pipe: it stands for {@linkcode StdinName.local} if
 * the kernel cannot create files in memory.
 *
 * Source: include/uapi/asm-generic/fcntl.h; the same on x86-64 and arm64.
 */
export const LOCAL_FLAG = 0o2000;

/**
 * Returns the name of stdin's file; undefined if the launcher did not create
 * it, or has no state to pass on.
 */
export function readStdinName():
  | typeof StdinName[keyof typeof StdinName]
  | undefined {
  const path = readLink("/proc/self/fd/0");
  if (path.startsWith("pipe:") && (readFlags() & LOCAL_FLAG) !== 0) {
    return StdinName.local;
  }
  return Object.values(StdinName)
    .find((name) => path.startsWith(`/memfd:${name} `));
}

/** Returns stdin's flags, as open(2) has them. Source: proc_pid_fdinfo(5). */
function readFlags(): number {
  try {
    const text = Deno.readTextFileSync("/proc/self/fdinfo/0");
    return Number.parseInt(/^flags:\s*(\d+)$/m.exec(text)?.[1] ?? "0", 8);
  } catch {
    return 0;
  }
}

/** Returns nothing if stdin is closed. */
function readLink(path: string): string {
  try {
    return Deno.readLinkSync(path);
  } catch {
    return "";
  }
}
