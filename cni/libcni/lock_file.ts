/**
 * Files that are locked by flock(2), and that the holder of the lock may
 * remove.
 *
 * Unlike `FileLock`, this never waits, and it notices a removed file.
 *
 * @module
 */

import { unlessMissing } from "../files/io.ts";

/** Whether the lock excludes others. */
export interface LockMode {
  readonly exclusive: boolean;
}

/** A locked file. Disposal unlocks it. */
export class LockFile implements Disposable {
  /** The open file. */
  readonly file: Deno.FsFile;
  /** Its path. */
  readonly path: string;

  private constructor(file: Deno.FsFile, path: string) {
    this.file = file;
    this.path = path;
  }

  /**
   * Opens and locks a file without waiting. Creates it with mode 0600.
   *
   * @returns Undefined if the file is locked elsewhere
   * @throws {Deno.errors.NotFound} If its folder does not exist; other errors
   *   of the file system are thrown as they are
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
      // The previous holder may have removed or renamed the file meanwhile.
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

  /** Removes the file if possible, and unlocks it. */
  remove(): void {
    try {
      // Must happen before unlocking, or the next holder would lose its file.
      Deno.removeSync(this.path);
    } catch {
      // It stays and will be reused.
    } finally {
      this[Symbol.dispose]();
    }
  }

  /** Unlocks the file. Must be called only once. */
  [Symbol.dispose](): void {
    this.file.close();
  }
}

/** Reports whether a path leads to an open file. */
function isAt(file: Deno.FsFile, path: string): boolean {
  return unlessMissing(() => {
    const [named, open] = [Deno.statSync(path), file.statSync()];
    return named.ino === open.ino && named.dev === open.dev;
  }) ?? false;
}

/** Reads a file if it is locked; returns "" if it is not. */
export function readIfLocked(path: string): string {
  try {
    using file = Deno.openSync(path);
    return file.tryLockSync(false) ? "" : Deno.readTextFileSync(path);
  } catch {
    return ""; // The file is gone, so its lock is too.
  }
}
