/**
 * Finds the processes that hold a lock on a file.
 *
 * @module
 */

import { readProcessStat } from "../process/process_stat.ts";
import { ifPossible } from "./io.ts";

/** The identity of a file. */
type FileId = Pick<Deno.FileInfo, "dev" | "ino">;

/** A process that holds a lock. */
export interface LockHolder {
  /** The process ID; 0 for a process in a different PID namespace. */
  readonly pid: number;
  /**
   * The name of its program, at most 15 characters; undefined if it has exited.
   */
  readonly program: string | undefined;
  /** Whether a signal has stopped it: it keeps the lock until SIGCONT. */
  readonly isStopped: boolean;
}

/** For how long the same process can still hold a contended lock. */
export class HoldLimit {
  readonly #limitMs: number;
  #leftMs: number;
  #holder: string | undefined;

  /** Starts with the whole time, in milliseconds. */
  constructor(limitMs: number) {
    this.#limitMs = this.#leftMs = limitMs;
  }

  /** The time left, in milliseconds. */
  get leftMs(): number {
    return this.#leftMs;
  }

  /** Records the holder after a further wait. A different holder restarts the limit. */
  record(holder: string, waitedMs: number): void {
    const isSame = (this.#holder ?? holder) === holder;
    this.#holder = holder;
    this.#leftMs = isSame ? this.#leftMs - waitedMs : this.#limitMs;
  }
}

/** How often `/proc/locks` is read if the lock is not found in it. */
const MAX_READS = 5;

/** Finds the processes that hold a flock(2) on a file, as far as visible. */
export function findLockHolders(file: FileId): LockHolder[] {
  let holders: number[] = [];
  for (let i = 0; i < MAX_READS && holders.length === 0; i++) {
    holders = findHolders(ifPossible(readLocks) ?? "", file);
  }
  return [...new Set(holders)].map((pid) => {
    const { program, state } = ifPossible(() => readProcessStat(pid)) ?? {};
    return { pid, program, isStopped: state === "T" || state === "t" };
  });
}

/**
 * Returns the content of `/proc/locks`. A lock that is released between two reads
 * hides the next entry, and a new lock shows an entry twice. So each read takes as
 * much as the kernel returns at a time: about 70 entries.
 *
 * Source: fs/seq_file.c `seq_read_iter`, fs/locks.c `locks_start`.
 */
export function readLocks(): string {
  using file = Deno.openSync("/proc/locks");
  const buffer = new Uint8Array(64 * 1024);
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const count = file.readSync(buffer) ?? 0;
    if (count === 0) return text;
    text += decoder.decode(buffer.subarray(0, count));
  }
}

/** Describes the processes that hold a flock(2) on a file, as far as visible. */
export function describeHolders(file: FileId): string {
  const holders = findLockHolders(file).map(describeProcess);
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

function describeProcess({ pid, program, isStopped }: LockHolder): string {
  if (pid === 0) return "a process of another PID namespace";
  const known = program === undefined
    ? `process ${pid}`
    : `process ${pid} (${program})`;
  return isStopped ? `${known}, which is stopped` : known;
}
