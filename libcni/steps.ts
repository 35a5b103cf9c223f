/**
 * Which plugins of a list have something to undo.
 *
 * @module
 */

import { checkChange } from "../ffi/change_check.ts";
import { describeError } from "../base/error.ts";
import { ifPossible, readTextFile } from "../base/files/io.ts";
import { isObject, type JsonObject } from "../base/json/json.ts";
import type { Log } from "../base/log/log.ts";

/** The steps of an attachment at one moment. */
export interface StepsState {
  /** Positions of the plugins whose ADD began, and whose DEL has not succeeded. */
  readonly left: readonly number[];
  /** The plugin among them whose ADD is not known to have succeeded. */
  readonly open?: number | undefined;
  /** The result of the last plugin whose ADD succeeded; undefined if none has. */
  readonly result?: JsonObject | undefined;
}

/**
 * Reads a file of states, each a line that was written before a plugin ran.
 *
 * @returns The last state, and the lines before it; undefined if it cannot be read
 *   or is damaged
 */
export function readStates(
  path: string,
): { readonly state: StepsState; readonly before: unknown[] } | undefined {
  return ifPossible(() => {
    const before = readTextFile(path).trimEnd().split("\n")
      .map((line): unknown => JSON.parse(line));
    const state = before.pop();
    return isState(state) ? { state, before } : undefined;
  });
}

/** A file of states, to which a call appends. */
export interface StatesFile {
  readonly path: string;
  readonly log: Pick<Log, "warn">;
  /** Writes all bytes at the end; may create the file. */
  readonly append: (bytes: Uint8Array<ArrayBuffer>) => void;
  readonly remove: () => void;
}

/**
 * Appends a state, and the lines before it. A record that lacks a plugin would hide it
 * from DEL: if it cannot be written, the record is removed, and DEL runs all plugins.
 *
 * @returns Whether it is written
 * @throws {Error} If the running call may change nothing any more
 */
export function appendState(
  { path, log, append, remove }: StatesFile,
  state: StepsState,
  ...before: readonly object[]
): boolean {
  const lines = [...before, state].map((line) => `${JSON.stringify(line)}\n`);
  checkChange();
  try {
    append(new TextEncoder().encode(lines.join("")));
    return true;
  } catch (error) {
    log.warn("Continuing without a record", {
      path,
      error: describeError(error),
    });
    remove();
    return false;
  }
}

function isState(value: unknown): value is StepsState & JsonObject {
  return isObject(value) && Array.isArray(value["left"]);
}

/**
 * The plugins of a list whose ADD began, while ADD and DEL run. ADD notes a plugin
 * before it runs, so that DEL knows of it even if ADD is killed; and DEL runs no
 * plugin that never began.
 */
export class Steps {
  readonly #left: Set<number>;
  readonly #onChange: (state: StepsState) => void;
  #open: number | undefined;
  #result: JsonObject | undefined;
  #isKept: boolean;

  /**
   * Starts with what an earlier call has left.
   *
   * @param onChange Keeps each new state
   * @param isKept False if it is to be kept only from the first failure on
   */
  constructor(
    { left, open, result }: StepsState = { left: [] },
    onChange: (state: StepsState) => void = () => {},
    isKept = true,
  ) {
    this.#left = new Set(left);
    this.#open = open;
    this.#result = result;
    this.#onChange = onChange;
    this.#isKept = isKept;
  }

  /** The result of the last plugin whose ADD succeeded. */
  get result(): JsonObject | undefined {
    return this.#result;
  }

  /** Whether nothing is to be undone. */
  get isEmpty(): boolean {
    return this.#left.size === 0;
  }

  /** Reports whether a plugin has something to undo. */
  isLeft(index: number): boolean {
    return this.#left.has(index);
  }

  /** Reports whether a plugin's ADD is not known to have succeeded. */
  isOpen(index: number): boolean {
    return this.#open === index;
  }

  /**
   * Notes that ADD of a plugin is about to begin.
   *
   * @param result The result of the plugin before it
   */
  begin(index: number, result: JsonObject | undefined): void {
    this.#left.add(index);
    this.#open = index;
    this.#result = result;
    this.#change();
  }

  /** Notes that a plugin's DEL has succeeded, or that its ADD never began. */
  end(index: number): void {
    if (!this.#left.delete(index)) return;
    this.#change();
  }

  /** Keeps the state for the next attempt, because a plugin's DEL has failed. */
  keep(): void {
    if (this.#isKept) return;
    this.#isKept = true;
    this.#change();
  }

  #change(): void {
    if (!this.#isKept) return;
    this.#onChange({
      left: [...this.#left],
      open: this.#open,
      result: this.#result,
    });
  }
}

/**
 * Returns the steps of an attachment whose ADD succeeded, as far as is known.
 *
 * @param onChange Keeps each new state after a failure
 */
export function allSteps(
  { length }: { readonly length: number },
  onChange?: (state: StepsState) => void,
): Steps {
  const left = Array.from({ length }, (_, index) => index);
  return new Steps({ left }, onChange, false);
}
