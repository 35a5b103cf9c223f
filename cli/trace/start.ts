/**
 * Traces what a process does into a file: its plugins, kernel requests, files and
 * processes.
 *
 * @module
 */

import { traceDeno } from "./deno_calls.ts";
import { type Loaders, traceLocks, tracePlugins } from "./plugin_calls.ts";
import { traceNetlink } from "./netlink_calls.ts";
import { describeError } from "../../base/error.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { openRegularFile } from "../../ffi/file/regular_file.ts";
import { formatRecord, maskSecretValues, type TraceRecord } from "./record.ts";
import { type Begun, type Ending, Recorder, type Subject } from "./recorder.ts";

/**
 * Starts to trace this process. It observes netlink sockets, and replaces
 * functions of Deno, so that code that is not traced pays nothing.
 *
 * @param path The trace, to which other processes append as well
 * @param loaders The registry of plugins
 * @param call What the process was started for, recorded when it exits; "" for
 *   none
 * @returns Stops it
 * @throws {Error} If the file cannot be written
 */
export function startTracing(
  path: string,
  loaders: Readonly<Loaders>,
  call = "",
): Disposable {
  const recorder = new FileRecorder(path);
  const undo = [
    tracePlugins(recorder, loaders as Loaders),
    traceNetlink(recorder),
    traceDeno(recorder, path),
    traceLocks(recorder),
  ];
  const exit = Deno.exit;
  const stop = (): void => {
    Deno.exit = exit;
    for (const one of undo.toReversed()) one();
    recorder.close();
  };
  Deno.exit = (code): never => {
    const more = { code: code ?? 0 };
    // Times count from the start of the process.
    if (call !== "") recorder.add({ kind: "call", name: call }, 0, { more });
    stop();
    return exit(code);
  };
  return { [Symbol.dispose]: stop };
}

/** Writes records. */
class FileRecorder extends Recorder {
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
        detail: maskSecretValues(details) as JsonObject,
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
