/**
 * Noticing changed files with nothing but `stat`.
 *
 * @module
 */

/**
 * Resolution of file system timestamps in milliseconds. A file written again
 * within that time may keep the timestamp that was read.
 */
const CLOCK_TICK_MS = 10;

/**
 * The state of some paths at one moment. Take the stamp of a file before reading
 * it, so that a write in between is noticed.
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
      // Who writes may set the first one, and only the clock the second.
      for (const time of [info?.mtime, info?.ctime]) {
        const ageMs = nowMs - (time?.getTime() ?? 0);
        if (Math.abs(ageMs) <= CLOCK_TICK_MS) this.#isSettled = false;
      }
    }
  }

  /** Reports whether nothing has changed, and nothing could have unnoticed. */
  isCurrent(): boolean {
    return this.#isSettled &&
      this.#stamps.entries()
        .every(([path, stamp]) => format(tryStat(path)) === stamp);
  }
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
