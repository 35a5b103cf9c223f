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
  /** No daemon was asked. */
  notAsked: "cni-stdin",
  /** This process must run the call: the daemon does not. */
  refused: "cni-refused",
  /** The daemon went away with the call. */
  lost: "cni-lost",
} as const;

/** Returns the name of stdin's file; undefined if the call stub did not make it. */
export function readStdinName():
  | typeof StdinName[keyof typeof StdinName]
  | undefined {
  const path = Deno.readLinkSync("/proc/self/fd/0");
  return Object.values(StdinName)
    .find((name) => path.startsWith(`/memfd:${name} `));
}
