/**
 * Writes the records of this process to a trace.
 *
 * @module
 */

import { describeError } from "../../cni/error.ts";
import { unlessMissing } from "../../cni/files/io.ts";
import type { JsonObject } from "../../cni/json/json.ts";
import {
  formatRecord,
  type Kind,
  maskSecrets,
  type TraceRecord,
} from "./record.ts";

/** The description of an operation before it starts. */
export interface Subject {
  readonly kind: Kind;
  readonly name: string;
  readonly object?: string;
  readonly detail?: JsonObject | undefined;
}

/** Writes records. */
export class Recorder {
  readonly #file: Deno.FsFile;
  readonly #write: (bytes: Uint8Array) => number;
  /** Records of system calls wait until their errno has been read. */
  readonly #waiting: (() => void)[] = [];

  /**
   * Opens the file for appending; creates it for its owner only.
   *
   * @throws {Error} If it is not a file, or cannot be opened
   */
  constructor(path: string) {
    // Opening a pipe would wait for a reader.
    const found = unlessMissing(() => Deno.statSync(path));
    if (found?.isFile === false) throw new Error(`"${path}" is not a file`);
    this.#file = Deno.openSync(path, {
      append: true,
      create: true,
      mode: 0o600,
    });
    this.#write = this.#file.writeSync.bind(this.#file);
  }

  /**
   * Does something, and records how long it took.
   *
   * @param after Describes the result
   */
  around<T>(
    subject: Subject,
    work: () => T,
    after: (result: T) => JsonObject | undefined = () => undefined,
  ): T {
    const startMs = performance.now();
    const end = (error?: unknown, result?: T): void => {
      const more = result === undefined ? undefined : after(result);
      this.add(subject, startMs, { error, more });
    };
    let result: T;
    try {
      result = work();
    } catch (error) {
      end(error);
      throw error;
    }
    if (!(result instanceof Promise)) {
      end(undefined, result);
      return result;
    }
    return result.then((value) => {
      end(undefined, value);
      return value;
    }, (error) => {
      end(error);
      throw error;
    }) as T;
  }

  /** Adds a record of something that ends now, or at a given time. */
  add(
    { kind, name, object = "", detail }: Subject,
    startMs: number,
    { error, more, endMs = performance.now() }: {
      readonly error?: unknown;
      readonly more?: JsonObject | undefined;
      readonly endMs?: number;
    } = {},
  ): void {
    for (const add of this.#waiting.splice(0)) add();
    const details = { ...detail, ...more };
    const record: TraceRecord = {
      kind,
      name,
      object,
      startUs: Math.round((performance.timeOrigin + startMs) * 1000),
      durationUs: Math.round((endMs - startMs) * 1000),
      pid: Deno.pid,
      ...error !== undefined && { error: describeError(error) },
      ...Object.keys(details).length > 0 && {
        detail: maskSecrets(details) as JsonObject,
      },
    };
    try {
      this.#write(new TextEncoder().encode(formatRecord(record)));
    } catch {
      // A full disk must not stop the plugin.
    }
  }

  /** Adds a record later, with the next one: writing it now would change errno. */
  addLater(add: () => void): void {
    this.#waiting.push(add);
  }

  /** Writes the rest and closes the file. */
  close(): void {
    for (const add of this.#waiting.splice(0)) add();
    this.#file.close();
  }
}
