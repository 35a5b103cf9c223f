/**
 * Files that are never visible half-written.
 *
 * @module
 */

import { removeQuietly, unlessUnreachable } from "../../cni/files/io.ts";

/** A file that has its content, but not its final name. */
export class Draft implements Disposable {
  /** Content of the file. */
  readonly content: string;
  readonly #path: string;
  #isThere = true;

  /**
   * Writes the file. If that fails, no file is left, and the system's error is
   * thrown.
   *
   * @param path Temporary name
   * @param finish Runs before the file is closed
   */
  constructor(
    path: string,
    content: string,
    finish: (file: Deno.FsFile) => void = () => {},
  ) {
    this.content = content;
    this.#path = path;
    try {
      writeNew(path, content, finish);
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
  }

  /** Whether the file still has its temporary name. */
  get isThere(): boolean {
    return this.#isThere;
  }

  /**
   * Gives the file a new name, unless the name is taken.
   *
   * @returns False if the name is taken
   */
  link(path: string): boolean {
    try {
      // A check beforehand would take longer: successful calls are quick in
      // Deno.
      Deno.linkSync(this.#path, path);
      this[Symbol.dispose]();
    } catch {
      if (isThere(path)) return false;
      // Not every file system has hard links.
      this.replace(path);
    }
    return true;
  }

  /** Gives the file a new name, and replaces any file of that name. */
  replace(path: string): void {
    Deno.renameSync(this.#path, path);
    this.#isThere = false;
  }

  /** Removes the file, unless it has been renamed. */
  [Symbol.dispose](): void {
    if (this.#isThere) removeQuietly(this.#path);
    this.#isThere = false;
  }
}

/**
 * Writes a new file. A leftover of a killed process may be a hard link to a
 * lease, so it is never opened, only removed.
 */
function writeNew(
  path: string,
  content: string,
  finish: (file: Deno.FsFile) => void,
): void {
  using file = openNew(path);
  let bytes = new TextEncoder().encode(content);
  while (bytes.length > 0) bytes = bytes.subarray(file.writeSync(bytes));
  finish(file);
}

function openNew(path: string): Deno.FsFile {
  const options = { write: true, createNew: true, mode: 0o600 };
  try {
    return Deno.openSync(path, options);
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    Deno.removeSync(path);
    return Deno.openSync(path, options);
  }
}

function isThere(path: string): boolean {
  return unlessUnreachable(() => Deno.lstatSync(path)) !== undefined;
}
