/**
 * The programs that this process runs or has run lately, by process ID.
 *
 * @module
 */

import { ifPossible } from "../../../../base/files/io.ts";
import { once } from "../../../../base/json/json.ts";

/** For how long an ended program is known: no reader of events is so far behind. */
const KNOWN_MS = 10_000;

/**
 * Inode number of the initial PID namespace.
 *
 * Source: include/linux/proc_ns.h `PROC_PID_INIT_INO`.
 */
const INITIAL_PID_NAMESPACE = 0xeffffffc;

/**
 * Process IDs of programs. The kernel's events have the IDs of the initial PID
 * namespace. In another one, where this process cannot know these, none is known.
 */
export class StartedPrograms {
  readonly #isInitial: () => boolean;
  readonly #now: () => number;
  /** When the programs ended, in ms; undefined while they run. */
  readonly #ends = new Map<number, number | undefined>();

  /**
   * Starts with none.
   *
   * @param pidNamespace Path of this process' PID namespace
   * @param now A clock that is never set back, in ms
   */
  constructor(
    pidNamespace = "/proc/self/ns/pid",
    now: () => number = () => performance.now(),
  ) {
    this.#now = now;
    this.#isInitial = once(() =>
      ifPossible(() => Deno.statSync(pidNamespace).ino) ===
        INITIAL_PID_NAMESPACE
    );
  }

  /** Notes that a program has started. */
  noteStart(processId: number): void {
    if (this.#isInitial()) this.#ends.set(processId, undefined);
  }

  /** Notes that a program has ended. The kernel may then give its ID to another one. */
  noteEnd(processId: number): void {
    this.#forgetOld();
    if (!this.#ends.delete(processId)) return;
    // Last, so that the first is the oldest.
    this.#ends.set(processId, this.#now());
  }

  /** Reports whether a program runs, or has ended within the last 10 s. */
  has(processId: number): boolean {
    this.#forgetOld();
    return this.#ends.has(processId);
  }

  #forgetOld(): void {
    const oldest = this.#now() - KNOWN_MS;
    for (const [processId, end] of this.#ends) {
      if (end !== undefined && end <= oldest) this.#ends.delete(processId);
    }
  }
}
