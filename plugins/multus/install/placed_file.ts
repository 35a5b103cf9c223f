/**
 * Files that are written to a node, and restored if a different program removes or
 * changes them.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import {
  isDirectory,
  unlessMissing,
  withIoFailure,
} from "../../../base/files/io.ts";
import { replaceFile } from "../../../base/files/replace.ts";
import type { Log } from "../../../base/log/log.ts";
import { NotYetError } from "./steps.ts";

/** A file whose content we manage, readable only by its owner. */
export class PlacedFile {
  /** Path of the file. */
  readonly path: string;
  readonly #log: Log;
  readonly #limit: RestoreLimit;
  /** The last intended content that was found or written. */
  #placed: string | undefined;

  /** Neither reads nor writes yet. */
  constructor(path: string, log: Log) {
    this.path = path;
    this.#log = log;
    this.#limit = new RestoreLimit(path);
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
      if (isTaken) this.#limit.takeTurn();
      withIoFailure(
        `write "${this.path}"`,
        () => replaceFile(this.path, new TextEncoder().encode(content)),
      );
      this.#logWrite(isTaken, found);
    }
    this.#placed = content;
  }

  #logWrite(isTaken: boolean, found: string | undefined): void {
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
 * Checks that a directory exists. It is not created: in a container without a mount
 * of the node's directory, it would be created in the container.
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

/** The pauses start over after this time without a restoration, in ms. */
const CALM_MS = 60_000;
const FIRST_PAUSE_MS = 1000, LONGEST_PAUSE_MS = 10_000;

/**
 * Limits how often a file is restored that a different program keeps changing:
 * immediately, then after increasing pauses. Two programs that both restore
 * immediately would keep the node busy.
 */
export class RestoreLimit {
  readonly #path: string;
  readonly #now: () => number;
  #pauseMs = 0;
  #lastMs = -Infinity;

  /**
   * @param path The restored file, for messages
   * @param now Milliseconds of a monotonic clock
   */
  constructor(path: string, now: () => number = () => performance.now()) {
    this.#path = path;
    this.#now = now;
  }

  /**
   * Takes a turn to restore the file.
   *
   * @throws {NotYetError} If the last turn was too recent
   */
  takeTurn(): void {
    const calmMs = this.#now() - this.#lastMs;
    if (calmMs < this.#pauseMs) {
      throw new NotYetError(
        `Cannot restore "${this.#path}" yet: another program keeps replacing it`,
      );
    }
    this.#pauseMs = calmMs >= CALM_MS
      ? FIRST_PAUSE_MS
      : Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS);
    this.#lastMs = this.#now();
  }
}
