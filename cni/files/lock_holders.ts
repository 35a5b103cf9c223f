/**
 * Names the processes that hold a lock on a file.
 *
 * @module
 */

import { ifPossible } from "./io.ts";

/** The identity of a file. */
type FileId = Pick<Deno.FileInfo, "dev" | "ino">;

/** Describes the processes that hold a flock(2) on a file, as far as visible. */
export function describeHolders(file: FileId): string {
  const text = ifPossible(() => Deno.readTextFileSync("/proc/locks")) ?? "";
  const holders = findHolders(text, file).map(describeProcess);
  return holders.join(", ") || "another process";
}

/**
 * Finds the process IDs that hold a flock(2) on a file. The kernel shows 0 for
 * processes of other PID namespaces.
 *
 * Source: proc_locks(5).
 *
 * @param text The content of `/proc/locks`
 */
export function findHolders(
  text: string,
  { dev, ino }: FileId,
): number[] {
  // Lines with an arrow belong to waiting processes.
  const line = /^\d+: FLOCK +\S+ +\S+ +(\d+) ([\da-f]+):([\da-f]+):(\d+) /gm;
  const locks = [...text.matchAll(line)]
    .filter(([, , , , inode]) => Number(inode) === ino);
  // Some file systems, such as Btrfs, have a different device number there.
  const exact = locks.filter(([, , major = "", minor = ""]) =>
    makeDevice(parseInt(major, 16), parseInt(minor, 16)) === dev
  );
  return (exact.length > 0 ? exact : locks).map(([, pid]) => Number(pid));
}

/** Source: include/linux/kdev_t.h `new_encode_dev`. */
function makeDevice(major: number, minor: number): number {
  return (minor & 0xff) + major * 0x100 + (minor & ~0xff) * 0x1000;
}

function describeProcess(pid: number): string {
  if (pid === 0) return "a process of another PID namespace";
  const name = ifPossible(() => Deno.readTextFileSync(`/proc/${pid}/comm`));
  return name === undefined
    ? `process ${pid}`
    : `process ${pid} (${name.trim()})`;
}
