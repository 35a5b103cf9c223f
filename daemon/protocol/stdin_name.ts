/**
 * What the call stub tells deno, when deno starts after it: it has read stdin, and
 * made it a file in memory, whose name says how far it came.
 *
 * Source: `scripts/compile/call_stub/stub.ts`; memfd_create(2).
 *
 * @module
 */

/** Names of the file. */
export const StdinName = {
  /** The stub cannot tell which daemon to ask. */
  notAsked: "cni-stdin",
  /** Nobody is at the first socket, or somebody who is not to be trusted. */
  nobody: "cni-nobody",
  /** The daemon is turned off (`daemon/protocol/daemon_losses.ts`). */
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

/** Returns the name of stdin's file; undefined if the call stub did not make it. */
export function readStdinName():
  | typeof StdinName[keyof typeof StdinName]
  | undefined {
  const path = readLink("/proc/self/fd/0");
  return Object.values(StdinName)
    .find((name) => path.startsWith(`/memfd:${name} `));
}

/** Returns nothing if stdin is closed. */
function readLink(path: string): string {
  try {
    return Deno.readLinkSync(path);
  } catch {
    return "";
  }
}
