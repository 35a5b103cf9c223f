/**
 * The steps of an ADD on disk, while it runs and after it has failed. An attachment
 * whose ADD succeeded is cached, and needs no record.
 *
 * Each line is a state, written before the plugin runs. The last one counts. The first
 * one of a call replaces the states of earlier calls, which it contains.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { removeQuietly, writeAll } from "../base/files/io.ts";
import type { Log } from "../base/log/log.ts";
import { appendState, readStates, Steps, type StepsState } from "./steps.ts";

/** The record of an attachment. */
export class StepRecord implements Disposable {
  readonly #path: string;
  #file: Deno.FsFile | undefined;
  /** The plugins that have something to undo. */
  readonly steps: Steps;

  private constructor(
    path: string,
    log: Pick<Log, "warn">,
    state: StepsState | undefined,
  ) {
    this.#path = path;
    this.steps = new Steps(state, (changed) =>
      void appendState({
        path,
        log,
        append: (bytes) => writeAll(this.#file ??= openEmpty(path), bytes),
        remove: () => this.remove(),
      }, changed));
  }

  /**
   * Begins a record. What an earlier ADD has left stays recorded. If there can be no
   * record, ADD goes on without.
   */
  static begin(path: string, log: Pick<Log, "warn">): StepRecord {
    return new StepRecord(path, log, readStates(path)?.state);
  }

  /** Finds a record; undefined if there is none, or it is damaged. */
  static find(path: string, log: Pick<Log, "warn">): StepRecord | undefined {
    const { state } = readStates(path) ?? {};
    return state && new StepRecord(path, log, state);
  }

  /** Removes the record: nothing is left, or the attachment is cached. */
  remove(): void {
    removeQuietly(this.#path);
  }

  /** Closes the file. */
  [Symbol.dispose](): void {
    this.#file?.close();
    this.#file = undefined;
  }
}

function openEmpty(path: string): Deno.FsFile {
  using stack = new DisposableStack();
  const file = stack.use(openToAppend(path));
  // An empty file is not truncated: when a truncated file is closed, ext4 waits for the
  // disk.
  if (file.statSync().size > 0) file.truncateSync();
  stack.move();
  return file;
}

function openToAppend(path: string): Deno.FsFile {
  const options = { create: true, append: true, mode: 0o600 };
  try {
    return Deno.openSync(path, options);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    Deno.mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    return Deno.openSync(path, options);
  }
}
