/**
 * Advisory locks on files, shared with other programs that use flock(2).
 *
 * @module
 */

/** An exclusive flock(2), held until disposal. */
export class FileLock implements Disposable {
  readonly #file: Deno.FsFile;

  private constructor(file: Deno.FsFile) {
    this.#file = file;
  }

  /**
   * Opens `path`, creating it with `mode`, and waits for the lock on it.
   *
   * @param mode Permission bits of a new file
   * @throws {Deno.errors.NotFound} If the folder does not exist
   */
  static acquire(path: string, mode: number): FileLock {
    const file = Deno.openSync(path, { write: true, create: true, mode });
    try {
      file.lockSync(true);
      return new FileLock(file);
    } catch (error) {
      file.close();
      throw error;
    }
  }

  /** Gives the lock up by closing the file; a second call does nothing. */
  [Symbol.dispose](): void {
    try {
      this.#file.close();
    } catch (error) {
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
  }
}
