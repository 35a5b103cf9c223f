/**
 * Files that nobody ever sees half of.
 *
 * @module
 */

import { removeQuietly } from "../../cni/io_failure.ts";
import { unlessMissing } from "./io_failure.ts";

/** A file that has its content, but not its name. */
export class Draft implements Disposable {
  /** What the file holds. */
  readonly content: string;
  readonly #path: string;
  #isThere = true;

  /**
   * Writes the file. If that fails there is none, and what is thrown is the
   * system's.
   *
   * @param path Its name for the time being
   * @param finish What is done with it before it is closed
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

  /** Whether it is still to get its name. */
  get isThere(): boolean {
    return this.#isThere;
  }

  /**
   * Gives the file a name that nothing has.
   *
   * @returns False if something has it
   */
  link(path: string): boolean {
    try {
      // Asking first would take longer: what succeeds is quick in Deno.
      Deno.linkSync(this.#path, path);
      this[Symbol.dispose]();
    } catch {
      if (isThere(path)) return false;
      // Not every file system has hard links.
      this.replace(path);
    }
    return true;
  }

  /** Gives the file a name, and takes it from what has it. */
  replace(path: string): void {
    Deno.renameSync(this.#path, path);
    this.#isThere = false;
  }

  /** Removes the file, unless it has got another name. */
  [Symbol.dispose](): void {
    if (this.#isThere) removeQuietly(this.#path);
    this.#isThere = false;
  }
}

/**
 * Writes a file that was not there. What a killed process left may be a lease
 * by another name, so it is never opened, only removed.
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
  return unlessMissing(() => Deno.lstatSync(path)) !== undefined;
}
