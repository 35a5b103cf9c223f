/**
 * Noticing that files have changed, by nothing but `stat`.
 *
 * @module
 */

/**
 * How coarse the clock of a file system is, in milliseconds: what is written
 * again sooner may have the time of what was read.
 */
const CLOCK_TICK_MS = 10;

/**
 * What some paths were at a moment. Take the stamp of a file before reading it:
 * what is written meanwhile is noticed then.
 */
export class FileStamps {
  readonly #stamps = new Map<string, string>();
  #isSettled = true;

  /** Takes the stamps of paths. A folder's changes with the names in it. */
  add(paths: Iterable<string>): void {
    const nowMs = Date.now();
    for (const path of paths) {
      const info = tryStat(path);
      this.#stamps.set(path, format(info));
      const ageMs = nowMs - (info?.mtime?.getTime() ?? 0);
      if (Math.abs(ageMs) <= CLOCK_TICK_MS) this.#isSettled = false;
    }
  }

  /** Says whether all is as it was, and could not have changed unnoticed. */
  isCurrent(): boolean {
    return this.#isSettled &&
      this.#stamps.entries()
        .every(([path, stamp]) => format(tryStat(path)) === stamp);
  }
}

/** Looks where a link leads to, as a mounted ConfigMap has them. */
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
