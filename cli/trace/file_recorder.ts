/**
 * Writes the records of this process to a trace.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { openRegularFile } from "../../ffi/file/regular_file.ts";
import { formatRecord, maskSecrets, type TraceRecord } from "./record.ts";
import { type Begun, type Ending, Recorder, type Subject } from "./recorder.ts";

/** Writes records. */
export class FileRecorder extends Recorder {
  readonly #file: Deno.FsFile;
  readonly #write: (bytes: Uint8Array) => number;

  /**
   * Opens a trace, to which other processes append as well.
   *
   * @throws {Error} If it is not a file, as a link is not, or cannot be opened
   */
  constructor(path: string) {
    super();
    this.#file = openRegularFile(path);
    this.#write = this.#file.writeSync.bind(this.#file);
  }

  override begin(subject: Subject, startMs = performance.now()): Begun {
    return {
      variables: {},
      within: (work) => work(),
      end: (ending) => this.#record(subject, startMs, ending),
    };
  }

  #record(
    { kind, name, object = "", detail }: Subject,
    startMs: number,
    { error, more, endMs = performance.now() }: Ending,
  ): void {
    this.settle();
    const details = { ...detail?.(), ...more };
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

  /** Writes the rest and closes the file. */
  close(): void {
    this.settle();
    this.#file.close();
  }
}
