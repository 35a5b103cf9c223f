/**
 * The programs that this process runs, or has recently run, by process ID.
 *
 * @module
 */

import { ifPossible } from "../../../../base/files/io.ts";
import { once } from "../../../../base/json/json.ts";

/**
 * For how long an exited program is remembered, which is longer than any delay of
 * events.
 */
const KNOWN_MS = 10_000;

/**
 * Inode number of the initial PID namespace.
 *
 * Source: include/linux/proc_ns.h `PROC_PID_INIT_INO`.
 */
const INITIAL_PID_NAMESPACE = 0xeffffffc;

/**
 * Process IDs of programs. The kernel's events contain IDs in the initial PID
 * namespace. In a different PID namespace, where this process cannot determine these
 * IDs, no program is remembered.
 */
export class StartedPrograms {
  readonly #isInitial: () => boolean;
  readonly #now: () => number;
  /** When the programs exited, in ms; undefined while they run. */
  readonly #ends = new Map<number, number | undefined>();

  /**
   * Starts without programs.
   *
   * @param pidNamespace Path of this process' PID namespace
   * @param now A monotonic clock, in ms
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

  /** Records the start of a program. */
  noteStart(processId: number): void {
    if (this.#isInitial()) this.#ends.set(processId, undefined);
  }

  /** Records the exit of a program, whose ID the kernel can then reuse. */
  noteEnd(processId: number): void {
    this.#forgetOld();
    if (!this.#ends.delete(processId)) return;
    // Appended at the end, so that the first entry is the oldest.
    this.#ends.set(processId, this.#now());
  }

  /** Reports whether a program is running, or has exited within the last 10 s. */
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
