/**
 * What the launcher tells deno, when deno starts after it: it has read stdin, and
 * made it a file in memory, whose name says how far it came.
 *
 * Source: `launcher/call.c`; memfd_create(2).
 *
 * @module
 */

/** Names of the file. */
export const StdinName = {
  /** The launcher cannot tell which daemon to ask. */
  notAsked: "cni-stdin",
  /** Nobody is at the first socket, or somebody who is not to be trusted. */
  nobody: "cni-nobody",
  /** The daemon is turned off (`daemon/wire/daemon_losses.ts`). */
  off: "cni-off",
  /** This process must run the call: no daemon is to be asked, or it does not run it. */
  refused: "cni-refused",
  /** The same: the daemon did not take the call in time. */
  late: "cni-late",
  /** The same, of a call that waited for less since another had waited in vain. */
  hurried: "cni-hurried",
  /** The daemon went away with the call. */
  lost: "cni-lost",
  /** The daemon has the call, and says nothing any more. */
  silent: "cni-silent",
} as const;

/**
 * O_APPEND, which means nothing for a pipe: it stands for {@linkcode StdinName.refused}
 * where the kernel makes no files in memory.
 *
 * Source: include/uapi/asm-generic/fcntl.h; the same on x86-64 and arm64.
 */
export const REFUSED_FLAG = 0o2000;

/**
 * Returns the name of stdin's file; undefined if the launcher did not make it, or
 * has nothing to tell.
 */
export function readStdinName():
  | typeof StdinName[keyof typeof StdinName]
  | undefined {
  const path = readLink("/proc/self/fd/0");
  if (path.startsWith("pipe:") && (readFlags() & REFUSED_FLAG) !== 0) {
    return StdinName.refused;
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
