/**
 * A log file that many processes append to, each of which lives for a moment,
 * and that one of them sets aside when it is full.
 *
 * Files that were set aside are named as those of the Go version, as in
 * `multus-2024-05-01T10-00-00.000.log`, so that either removes the other's.
 *
 * @module
 */

import { basename, dirname, extname, join } from "@std/path/posix";
import { FileLock } from "../../../cni/file_lock.ts";
import { removeQuietly, unlessMissing } from "../../../cni/io_failure.ts";
import type { LogOptions } from "../config.ts";

const MEGABYTE = 1 << 20, DAY_MS = 24 * 60 * 60 * 1000;
/** Source: gopkg.in/natefinch/lumberjack.v2 `defaultMaxSize`. */
const DEFAULT_MEGABYTES = 100;

/** A log file. */
export class LogFile {
  readonly #path: string;
  readonly #options: LogOptions;
  readonly #now: () => Date;

  /**
   * Names a file. It is made, and its folder, when there is something to write.
   *
   * @param options When it is set aside, and how long it is kept then; 0 is no
   *   limit of age or number, and 100 megabytes
   * @param now Tells the time
   */
  constructor(
    path: string,
    options: LogOptions,
    now: () => Date = (): Date => new Date(),
  ) {
    this.#path = path;
    this.#options = options;
    this.#now = now;
  }

  /**
   * Appends a line by one write, so that those of several processes do not mix.
   * A file that it would make too large is set aside before.
   *
   * @param line With its end
   * @returns Whether a file was set aside
   * @throws {Deno.errors.PermissionDenied} If it cannot be written, and whatever
   *   else the file system has against it
   */
  append(line: string): boolean {
    const bytes = new TextEncoder().encode(line);
    using file = this.#open();
    if (!this.#isFull(file.statSync(), bytes.length)) {
      writeAll(file, bytes);
      return false;
    }
    const isSetAside = this.#setAside(bytes.length);
    using next = this.#open();
    writeAll(next, bytes);
    return isSetAside;
  }

  /** Lists the files that were set aside and shall yet be compressed. */
  listUncompressed(): string[] {
    return this.#options.compress
      ? this.#listBackups().flatMap(({ paths }) => paths)
        .filter((path) => !path.endsWith(".gz"))
      : [];
  }

  #open(): Deno.FsFile {
    try {
      return openForAppending(this.#path);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
      const folder = dirname(this.#path);
      Deno.mkdirSync(folder, { recursive: true, mode: 0o755 });
      return openForAppending(this.#path);
    }
  }

  #isFull({ isFile, size }: Deno.FileInfo, added: number): boolean {
    const megabytes = this.#options.maxSizeMegabytes || DEFAULT_MEGABYTES;
    return isFile && size > 0 && size + added > megabytes * MEGABYTE;
  }

  /** Sets the file aside, unless another process is at it, or was before. */
  #setAside(added: number): boolean {
    using lock = tryLock(this.#path);
    if (lock === undefined) return false;
    // The lock may be on a file that has another name by now.
    if (!this.#isFull(Deno.statSync(this.#path), added)) return false;
    Deno.renameSync(this.#path, this.#nameBackup());
    this.#removeOld();
    return true;
  }

  #nameBackup(): string {
    const taken = this.#listBackups().map(({ stamp }) => stamp);
    let time = this.#now().getTime();
    while (taken.includes(formatStamp(time))) time++;
    const { folder, stem, extension } = splitPath(this.#path);
    return join(folder, `${stem}-${formatStamp(time)}${extension}`);
  }

  #removeOld(): void {
    const { maxBackups, maxAgeDays } = this.#options;
    const oldest = maxAgeDays > 0
      ? formatStamp(this.#now().getTime() - maxAgeDays * DAY_MS)
      : "";
    const old = this.#listBackups().filter(({ stamp }, index) =>
      stamp < oldest || maxBackups > 0 && index >= maxBackups
    );
    // What cannot be removed, another process has removed, or the next one will.
    for (const path of old.flatMap(({ paths }) => paths)) removeQuietly(path);
  }

  /** Lists what was set aside, newest first. */
  #listBackups(): Backup[] {
    const { folder, stem, extension } = splitPath(this.#path);
    const byStamp = new Map<string, string[]>();
    for (const name of listNames(folder)) {
      const stamp = findStamp(name, `${stem}-`, extension);
      if (stamp === undefined) continue;
      const paths = byStamp.get(stamp) ?? [];
      byStamp.set(stamp, [...paths, join(folder, name)]);
    }
    return [...byStamp].map(([stamp, paths]) => ({ stamp, paths }))
      .sort((left, right) => left.stamp < right.stamp ? 1 : -1);
  }
}

/** A file that was set aside; two while it is compressed. */
interface Backup {
  /** When; it sorts as the time does. */
  readonly stamp: string;
  readonly paths: readonly string[];
}

function splitPath(
  path: string,
): Readonly<Record<"folder" | "stem" | "extension", string>> {
  const extension = extname(path);
  return { folder: dirname(path), stem: basename(path, extension), extension };
}

/** Formats a time in UTC. Source: lumberjack `backupTimeFormat`. */
function formatStamp(time: number): string {
  return new Date(time).toISOString().replaceAll(":", "-").replace("Z", "");
}

const STAMP = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}$/;

function findStamp(
  name: string,
  prefix: string,
  extension: string,
): string | undefined {
  const plain = name.endsWith(".gz") ? name.slice(0, -".gz".length) : name;
  if (!plain.startsWith(prefix) || !plain.endsWith(extension)) return undefined;
  const stamp = plain.slice(prefix.length, plain.length - extension.length);
  return STAMP.test(stamp) ? stamp : undefined;
}

/** Lists the names in a folder; there are none in one that was not made yet. */
function listNames(folder: string): string[] {
  const entries = unlessMissing(() => [...Deno.readDirSync(folder)]) ?? [];
  return entries.map(({ name }) => name);
}

/** Opens for reading as well: for writing alone a pipe waits for a reader. */
function openForAppending(path: string): Deno.FsFile {
  return Deno.openSync(path, {
    read: true,
    append: true,
    create: true,
    mode: 0o600,
  });
}

function writeAll(file: Deno.FsFile, bytes: Uint8Array): void {
  let left = bytes;
  while (left.length > 0) left = left.subarray(file.writeSync(left));
}

/** Locks a log file; answers nothing if it is gone, or another has the lock. */
function tryLock(path: string): FileLock | undefined {
  return unlessMissing(() => FileLock.tryExisting(path));
}

/**
 * Replaces files by gzipped ones. A file that another process compresses is
 * left to that; one that is there beside its `.gz` was not finished by whoever
 * began, and is done again.
 *
 * @throws {Deno.errors.PermissionDenied} If one cannot be written, and whatever
 *   else the file system has against it
 */
export async function compressFiles(paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    using lock = tryLock(path);
    if (lock === undefined) continue;
    using source = await Deno.open(path);
    const { mode } = await source.stat();
    const target = await Deno.open(`${path}.gz`, {
      write: true,
      create: true,
      truncate: true,
      mode: (mode ?? 0o600) & 0o777,
    });
    await source.readable.pipeThrough(new CompressionStream("gzip"))
      .pipeTo(target.writable);
    await Deno.remove(path);
  }
}
