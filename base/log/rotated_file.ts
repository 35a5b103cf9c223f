/**
 * A log file to which many short-lived processes append. A process that finds it full
 * rotates it.
 *
 * Rotated files have the same names as in the Go version, such as
 * `multus-2024-05-01T10-00-00.000.log`, so that each version removes the other
 * version's old files.
 *
 * @module
 */

import { basename, dirname, extname, join } from "@std/path/posix";
import { FileLock } from "../files/lock.ts";
import {
  removeQuietly,
  removeUnfinished,
  unlessMissing,
  writeAll,
} from "../files/io.ts";

/** How log files are rotated. */
export interface LogOptions {
  /** Age in days at which a rotated file is removed. */
  readonly maxAgeDays: number;
  /** Size in MiB at which the file is rotated. */
  readonly maxSizeMegabytes: number;
  /** Number of rotated files to keep. */
  readonly maxBackups: number;
  /** Compress rotated files with gzip. */
  readonly compress: boolean;
}

const MEGABYTE = 1 << 20, DAY_MS = 24 * 60 * 60 * 1000;
/** Source: gopkg.in/natefinch/lumberjack.v2 `defaultMaxSize`. */
const DEFAULT_MEGABYTES = 100;

/** A log file. */
export class LogFile {
  readonly #path: string;
  readonly #options: LogOptions;
  readonly #now: () => Date;

  /**
   * Sets the file's path. The first line creates the file and its directory.
   *
   * @param options The rotation. 0 means no limit for age and number, and 100 MiB
   *   for the size
   * @param now Returns the time
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
   * Appends a line with a single write, so that lines of several processes do not
   * mix. Rotates the file first if the line would make it too large.
   *
   * @param line With its line feed
   * @returns Whether the file was rotated
   * @throws {Deno.errors.PermissionDenied} And other errors of the file system
   */
  append(line: string): boolean {
    const bytes = new TextEncoder().encode(line);
    using file = this.#open();
    if (!this.#isFull(file.statSync(), bytes.length)) {
      writeAll(file, bytes);
      return false;
    }
    const isRotated = this.#rotate(bytes.length);
    using next = this.#open();
    writeAll(next, bytes);
    return isRotated;
  }

  /** Lists the rotated files that have not been compressed yet. */
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
      const directory = dirname(this.#path);
      Deno.mkdirSync(directory, { recursive: true, mode: 0o755 });
      return openForAppending(this.#path);
    }
  }

  #isFull({ isFile, size }: Deno.FileInfo, added: number): boolean {
    const megabytes = this.#options.maxSizeMegabytes || DEFAULT_MEGABYTES;
    return isFile && size > 0 && size + added > megabytes * MEGABYTE;
  }

  /** Rotates the file, unless a different process rotates it. */
  #rotate(added: number): boolean {
    using lock = tryLock(this.#path);
    if (lock === undefined) return false;
    // A different process might have rotated it in between.
    if (!this.#isFull(Deno.statSync(this.#path), added)) return false;
    Deno.renameSync(this.#path, this.#nameBackup());
    this.#removeOld();
    return true;
  }

  #nameBackup(): string {
    const taken = this.#listBackups().map(({ stamp }) => stamp);
    let time = this.#now().getTime();
    while (taken.includes(formatStamp(time))) time++;
    const { directory, stem, extension } = splitPath(this.#path);
    return join(directory, `${stem}-${formatStamp(time)}${extension}`);
  }

  #removeOld(): void {
    const { maxBackups, maxAgeDays } = this.#options;
    const oldest = maxAgeDays > 0
      ? formatStamp(this.#now().getTime() - maxAgeDays * DAY_MS)
      : "";
    const old = this.#listBackups().filter(({ stamp }, index) =>
      stamp < oldest || maxBackups > 0 && index >= maxBackups
    );
    // A file that cannot be removed was removed by a different process, or will be
    // removed by the next rotation.
    for (const path of old.flatMap(({ paths }) => paths)) removeQuietly(path);
  }

  /** Lists the rotated files, newest first. */
  #listBackups(): Backup[] {
    const { directory, stem, extension } = splitPath(this.#path);
    const byStamp = new Map<string, string[]>();
    for (const name of listNames(directory)) {
      const stamp = findStamp(name, `${stem}-`, extension);
      if (stamp === undefined) continue;
      const paths = byStamp.get(stamp) ?? [];
      byStamp.set(stamp, [...paths, join(directory, name)]);
    }
    return [...byStamp].map(([stamp, paths]) => ({ stamp, paths }))
      .sort((left, right) => left.stamp < right.stamp ? 1 : -1);
  }
}

/** A rotated file; two files while it is being compressed. */
interface Backup {
  /** Time of the rotation, in a form that sorts chronologically. */
  readonly stamp: string;
  readonly paths: readonly string[];
}

function splitPath(
  path: string,
): Readonly<Record<"directory" | "stem" | "extension", string>> {
  const extension = extname(path);
  return {
    directory: dirname(path),
    stem: basename(path, extension),
    extension,
  };
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

/** Lists the names in a directory; none if it does not exist. */
function listNames(directory: string): string[] {
  const entries = unlessMissing(() => [...Deno.readDirSync(directory)]) ?? [];
  return entries.map(({ name }) => name);
}

/**
 * Also opens the file for reading, because opening a pipe only for writing waits for
 * a reader.
 */
function openForAppending(path: string): Deno.FsFile {
  return Deno.openSync(path, {
    read: true,
    append: true,
    create: true,
    mode: 0o600,
  });
}

/**
 * Locks a log file; undefined if it was deleted, or if a different process holds the
 * lock.
 */
function tryLock(path: string): FileLock | undefined {
  return unlessMissing(() => FileLock.tryAcquire(path, { create: false }));
}

/**
 * Replaces files with gzipped files. A file that another process is compressing is
 * skipped. A file next to its `.gz` was compressed incompletely, and is compressed
 * again.
 *
 * @throws {Deno.errors.PermissionDenied} And other errors of the file system
 */
export async function compressFiles(paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    using lock = tryLock(path);
    if (lock === undefined) continue;
    using source = await Deno.open(path);
    const { mode } = await source.stat();
    removeUnfinished(`${path}.gz`);
    const target = await Deno.open(`${path}.gz`, {
      write: true,
      createNew: true,
      mode: (mode ?? 0o600) & 0o777,
    });
    await source.readable.pipeThrough(new CompressionStream("gzip"))
      .pipeTo(target.writable);
    await Deno.remove(path);
  }
}
