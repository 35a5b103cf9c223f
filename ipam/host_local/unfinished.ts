/**
 * The file that is being written in a network's directory: it gets its name when it
 * is complete.
 *
 * The file of a killed process may be a hard link to a lease, so it is never
 * opened, only removed.
 *
 * @module
 */

import {
  removeUnfinished,
  unlessUnreachable,
  writeAll,
} from "../../base/files/io.ts";

/** A file without its name yet. Use it only while the directory is locked. */
export class UnfinishedFile implements Disposable {
  readonly #path: string;
  readonly #makeRoom: () => boolean;
  /** The content, if this process has made the file. */
  #content: string | undefined;
  #wasWritten = false;

  /**
   * Names the file, which need not exist.
   *
   * @param makeRoom Makes room on a full disk; false if that is impossible
   */
  constructor(path: string, makeRoom: () => boolean) {
    this.#path = path;
    this.#makeRoom = makeRoom;
  }

  /** Whether it was this process that made the file, if there is one. */
  get isOurs(): boolean {
    return this.#content !== undefined;
  }

  /** Whether this process has ever written it, and so changed the directory. */
  get wasWritten(): boolean {
    return this.#wasWritten;
  }

  /** Writes the file. If that fails, no file is left. */
  write(content: string): void {
    this.#write(content, () => {});
  }

  /**
   * Writes the file once, however many names are tried. Synced before it gets its
   * name, or a crash could leave it empty.
   *
   * @param writtenMs The file's time, in ms since 1970; now by default
   */
  writeSynced(content: string, writtenMs?: number): void {
    if (this.#content === content && writtenMs === undefined) return;
    this.#write(content, (file) => {
      file.syncDataSync();
      if (writtenMs === undefined) return;
      file.utimeSync(new Date(writtenMs), new Date(writtenMs));
    });
  }

  #write(content: string, finish: (file: Deno.FsFile) => void): void {
    this.#wasWritten = true;
    const options = { write: true, createNew: true, mode: 0o600 };
    this.#whileRoom(() => {
      this.#content = content;
      using file = createAt(
        this.#path,
        () => Deno.openSync(this.#path, options),
      );
      writeAll(file, new TextEncoder().encode(content));
      finish(file);
    });
  }

  /** Writes the file; a second time if that makes room. */
  #whileRoom(write: () => void): void {
    try {
      write();
    } catch (error) {
      this.discard();
      if (!this.#makeRoom()) throw error;
      try {
        write();
      } catch (error) {
        this.discard();
        throw error;
      }
    }
  }

  /** Makes a symbolic link instead of a file. */
  writeLink(target: string): void {
    this.#wasWritten = true;
    createAt(this.#path, () => Deno.symlinkSync(target, this.#path));
    this.#content = target;
  }

  /**
   * Gives the file its name, unless the name is taken.
   *
   * @returns False if the name is taken
   */
  link(path: string): boolean {
    try {
      // A check beforehand would take longer: successful calls are quick in
      // Deno.
      Deno.linkSync(this.#path, path);
      this.discard();
    } catch {
      if (entryExists(path)) return false;
      // Not every file system has hard links.
      this.rename(path);
    }
    return true;
  }

  /** Gives the file its name, and replaces any file of that name. */
  rename(path: string): void {
    Deno.renameSync(this.#path, path);
    this.#content = undefined;
  }

  /** Removes the file, if this process has made it. */
  discard(): void {
    if (this.#content === undefined) return;
    removeUnfinished(this.#path);
    this.#content = undefined;
  }

  /** Removes the file, if this process has made it. */
  [Symbol.dispose](): void {
    this.discard();
  }
}

/** Creates a file, in place of an existing file. */
function createAt<T>(path: string, create: () => T): T {
  try {
    return create();
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    Deno.removeSync(path);
    return create();
  }
}

function entryExists(path: string): boolean {
  return unlessUnreachable(() => Deno.lstatSync(path)) !== undefined;
}
