/**
 * Files that are locked by flock(2), and may be removed by who has the lock.
 *
 * Other than `FileLock`, they never wait, and notice that a file was removed.
 *
 * @module
 */

import { unlessMissing } from "../io_failure.ts";

/** Whether others may have the lock as well. */
export interface LockMode {
  readonly exclusive: boolean;
}

/** A locked file, until disposal. */
export class LockFile implements Disposable {
  /** The open file. */
  readonly file: Deno.FsFile;
  /** Its name. */
  readonly path: string;

  private constructor(file: Deno.FsFile, path: string) {
    this.file = file;
    this.path = path;
  }

  /**
   * Opens and locks a file, creating it for its owner alone, without waiting.
   *
   * @returns Undefined if somebody else has it locked
   * @throws {Deno.errors.NotFound} If there is no folder for it, and whatever
   *   else the file system has against it
   */
  static tryOpen(path: string, { exclusive }: LockMode): LockFile | undefined {
    for (;;) {
      const file = Deno.openSync(path, {
        read: true,
        write: true,
        create: true,
        mode: 0o600,
      });
      using stack = new DisposableStack();
      stack.use(file);
      if (!file.tryLockSync(exclusive)) return undefined;
      // Who had the lock before may have removed or renamed the file meanwhile.
      if (!isAt(file, path)) continue;
      stack.move();
      return new LockFile(file, path);
    }
  }

  /** Replaces the content. */
  write(bytes: Uint8Array): void {
    this.file.truncateSync();
    this.file.seekSync(0, Deno.SeekMode.Start);
    let left = bytes;
    while (left.length > 0) left = left.subarray(this.file.writeSync(left));
  }

  /** Removes the file if that can be done, and unlocks it. */
  remove(): void {
    try {
      // While it is locked: the next one to open it would lose it.
      Deno.removeSync(this.path);
    } catch {
      // It will be used again.
    } finally {
      this[Symbol.dispose]();
    }
  }

  /** Unlocks the file; to be called once. */
  [Symbol.dispose](): void {
    this.file.close();
  }
}

/** Says whether a path leads to an open file. */
function isAt(file: Deno.FsFile, path: string): boolean {
  return unlessMissing(() => {
    const [named, open] = [Deno.statSync(path), file.statSync()];
    return named.ino === open.ino && named.dev === open.dev;
  }) ?? false;
}

/** Reads what is in a file if somebody has it locked, and "" if nobody has. */
export function readIfLocked(path: string): string {
  try {
    using file = Deno.openSync(path);
    return file.tryLockSync(false) ? "" : Deno.readTextFileSync(path);
  } catch {
    return ""; // It is gone, and so is who had it.
  }
}
