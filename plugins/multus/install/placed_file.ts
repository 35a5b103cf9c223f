/**
 * Files that are written to a node, and restored if another program removes or
 * changes them.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import {
  ifPossible,
  unlessMissing,
  withIoFailure,
} from "../../../base/files/io.ts";
import { replaceFile } from "../../../base/files/replace.ts";
import type { Log } from "../../../base/log/log.ts";
import { Contest } from "./contest.ts";

/** A file with content that we manage, readable only by its owner. */
export class PlacedFile {
  /** Path of the file. */
  readonly path: string;
  readonly #log: Log;
  readonly #contest: Contest;
  /** The last content that was found or written as intended. */
  #placed: string | undefined;

  /** Nothing is read or written yet. */
  constructor(path: string, log: Log) {
    this.path = path;
    this.#log = log;
    this.#contest = new Contest(path);
  }

  /**
   * Ensures that the file has this content. It is replaced atomically.
   *
   * @throws {NotYetError} If it was restored too often
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
    this.#log.warn(`restored a file that another program ${what}`, fields);
  }
}

/**
 * Reads a text file.
 *
 * @returns Undefined if it does not exist
 * @throws {CniError} 5 if it cannot be read
 */
export function readIfThere(path: string): string | undefined {
  return withIoFailure(
    `read "${path}"`,
    () => unlessMissing(() => Deno.readTextFileSync(path)),
  );
}

/**
 * Checks that a directory exists. It is not created: in a container without a
 * mount of the node's directory, the new one would be the container's.
 *
 * @throws {CniError} 5 if it does not exist
 */
export function requireDirectory(path: string): void {
  if (isDirectory(path)) return;
  throw new CniError(
    ErrorCode.IoFailure,
    `Cannot install into "${path}": the directory does not exist`,
  );
}

/** Reports whether the path is an accessible directory. */
export function isDirectory(path: string): boolean {
  return ifPossible(() => Deno.statSync(path).isDirectory) ?? false;
}
