/**
 * Files that are put on a node, and put back if somebody else removes or
 * changes them.
 *
 * @module
 */

import { replaceFile } from "../../../cni/libcni/replace_file.ts";
import { unlessMissing, withIoFailure } from "../../../cni/io_failure.ts";
import type { Log } from "../../../cni/log.ts";
import { Contest } from "./contest.ts";

/** A file whose content is ours to say; readable by its owner alone. */
export class PlacedFile {
  /** Where it is. */
  readonly path: string;
  readonly #log: Log;
  readonly #contest: Contest;
  /** What was last seen to be there as it shall be. */
  #placed: string | undefined;

  /** Nothing is read or written yet. */
  constructor(path: string, log: Log) {
    this.path = path;
    this.#log = log;
    this.#contest = new Contest(path);
  }

  /**
   * Sees to it that the file has this content. Something else gets in its place
   * whole, or not at all.
   *
   * @throws {NotYetError} If it is put back too often
   * @throws {CniError} 5 if it cannot be read or written
   */
  ensure(content: string): void {
    const found = readIfThere(this.path);
    if (found !== content) {
      const isTaken = this.#placed !== undefined && found !== this.#placed;
      if (isTaken) this.#contest.takeTurn();
      withIoFailure(
        `write "${this.path}"`,
        () => replaceFile(this.path, new TextEncoder().encode(content)),
      );
      this.#tell(isTaken, found);
    }
    this.#placed = content;
  }

  #tell(isTaken: boolean, found: string | undefined): void {
    const fields = { path: this.path };
    if (!isTaken) return this.#log.info("wrote a file", fields);
    const what = found === undefined ? "removed" : "changed";
    this.#log.warn(`put back a file that somebody else has ${what}`, fields);
  }
}

/**
 * Reads a text.
 *
 * @returns Undefined if there is no file
 * @throws {CniError} 5 if it cannot be read
 */
export function readIfThere(path: string): string | undefined {
  return withIoFailure(
    `read "${path}"`,
    () => unlessMissing(() => Deno.readTextFileSync(path)),
  );
}
