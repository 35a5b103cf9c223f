/**
 * Detects changed files only with `stat`.
 *
 * @module
 */

/**
 * Resolution of file system timestamps in milliseconds. A file that is written again
 * within that time can keep the timestamp that was read.
 */
const CLOCK_TICK_MS = 10;

/** Resolution of `ctime`, for which Deno only reports seconds. */
const CTIME_TICK_MS = 1000 + CLOCK_TICK_MS;

/**
 * The state of some paths at a point in time. Take the stamp of a file before reading
 * the file, so that a write in between is detected.
 */
export class FileStamps {
  readonly #now: () => number;
  readonly #stamps = new Map<string, string>();
  #isSettled = true;

  /** @param now The time of new files, in ms */
  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** Takes the stamps of paths. A directory's stamp changes with its entries. */
  add(paths: Iterable<string>): void {
    const nowMs = this.#now();
    for (const path of paths) {
      const info = tryStat(path);
      this.#stamps.set(path, format(info));
      // A writer can set the first timestamp, but only the clock sets the second.
      if (
        isWithin(CLOCK_TICK_MS, nowMs, info?.mtime) ||
        isWithin(CTIME_TICK_MS, nowMs, info?.ctime)
      ) this.#isSettled = false;
    }
  }

  /** Reports whether nothing has changed, and no change can have gone undetected. */
  isCurrent(): boolean {
    return this.#isSettled &&
      this.#stamps.entries()
        .every(([path, stamp]) => format(tryStat(path)) === stamp);
  }
}

function isWithin(
  tickMs: number,
  nowMs: number,
  time: Date | null | undefined,
): boolean {
  return Math.abs(nowMs - (time?.getTime() ?? 0)) <= tickMs;
}

/** Follows symbolic links, which mounted ConfigMaps use. */
function tryStat(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch {
    return undefined;
  }
}

function format(info: Deno.FileInfo | undefined): string {
  if (info === undefined) return "missing";
  const { dev, ino, size, mtime, ctime } = info;
  return [dev, ino, size, mtime?.getTime(), ctime?.getTime()].join();
}
