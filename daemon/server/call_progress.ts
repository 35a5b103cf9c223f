/**
 * Where a call in the daemon is, and why it ends.
 *
 * A call is given up if its caller disconnects, a DEL of its attachment arrives or the
 * daemon stops. This is not a state: the call ends as soon as it can, and an ADD is
 * undone. `RunningCall` decides what a call that was given up may still change.
 *
 * @module
 */

import { JoinedSignal, pause, waitUntil } from "../../base/deadline.ts";

/** The states, each with the states that can follow. */
const NEXT = {
  /** The caller sends the request. */
  arriving: ["offered", "ended"],
  /**
   * The daemon compares the caller and finds the plugin. The caller waits for a
   * second, or until the call is declined, and then runs it locally. Earlier calls of
   * the attachment that were given up wait for the decision before they delete or undo.
   */
  offered: ["waiting", "ended"],
  /**
   * Taken: it waits for a repair of the container, for earlier calls of the
   * attachment, and for a slot. A call that is declined waits for these calls, too.
   */
  waiting: ["running", "ended"],
  /** The plugin runs, and changes the node. */
  running: ["undoing", "ended"],
  /** DEL undoes an ADD that was given up, and changes the node. */
  undoing: ["ended"],
  /** The call is answered or declined. */
  ended: [],
} as const;

/** A state of a call. */
export type CallState = keyof typeof NEXT;

/** The process that waits for a call. */
export interface Caller {
  /** Aborted when the caller disconnects. */
  readonly signal: AbortSignal;
  /** Aborts the signal now if the caller has disconnected and no event has reported that yet. */
  readonly poll: () => void;
}

/**
 * How long a DEL continues without its caller, in ms: longer than each time limit of a
 * program that this project's plugins start. Third-party plugins have no limit.
 */
const ABANDONED_MS = 120_000;

/** Follows a call from its arrival to its end. */
export class CallProgress {
  #state: CallState;
  #runner: "daemon" | "caller" | undefined;
  readonly #decision = Promise.withResolvers<void>();
  readonly #caller: Caller;
  readonly #cancel = new AbortController();
  readonly #ended = new AbortController();
  /** Aborted when the call is given up: its caller disconnected, or it was cancelled. */
  readonly signal: AbortSignal;

  /** @param state `waiting` for a call that the daemon need not take */
  constructor(caller: Caller, state: "arriving" | "waiting" = "arriving") {
    this.#caller = caller;
    this.#state = state;
    this.signal = new JoinedSignal(caller.signal, this.#cancel.signal).signal;
    if (state === "waiting") this.#decide("daemon");
  }

  /** The current state. */
  get state(): CallState {
    return this.#state;
  }

  /** Who runs the call: the daemon once it has taken the call; undefined until then. */
  get runner(): "daemon" | "caller" | undefined {
    return this.#runner;
  }

  /** Resolves when {@linkcode runner} is known. */
  get decision(): Promise<void> {
    return this.#decision.promise;
  }

  /** Whether the call may change the node. */
  get mayChangeNode(): boolean {
    return this.#state === "running" || this.#state === "undoing";
  }

  /**
   * Enters a state.
   *
   * @returns False if the call has ended before; nothing happens then
   * @throws {Error} If the state cannot follow
   */
  enter(next: CallState): boolean {
    if (this.#state === "ended") return false;
    const following: readonly CallState[] = NEXT[this.#state];
    if (!following.includes(next)) {
      throw new Error(`A call that is ${this.#state} cannot be ${next}`);
    }
    this.#state = next;
    if (next === "waiting") this.#decide("daemon");
    if (next === "ended") {
      this.#decide("caller");
      this.#ended.abort();
    }
    return true;
  }

  /** Gives the call up. */
  cancel(reason: Error): void {
    this.#cancel.abort(reason);
  }

  /** Reports whether the call is given up, even if no event has reported it yet. */
  isGivenUp(): boolean {
    this.#caller.poll();
    return this.signal.aborted;
  }

  /**
   * Returns the signal that stops the programs and waits of a call that runs. It is
   * aborted when the call is given up, except that a DEL continues without its caller
   * for {@linkcode ABANDONED_MS}.
   */
  endSignalOf(command: string): AbortSignal {
    if (command !== "DEL") return this.signal;
    this.#endAbandoned();
    return this.#cancel.signal;
  }

  async #endAbandoned(): Promise<void> {
    const { signal: ended } = this.#ended;
    await waitUntil(new Promise(() => {}), this.#caller.signal, ended);
    if (!ended.aborted) await pause(ABANDONED_MS, ended);
    if (ended.aborted) return;
    this.cancel(new Error("its caller disconnected two minutes ago"));
  }

  #decide(runner: "daemon" | "caller"): void {
    this.#runner ??= runner;
    this.#decision.resolve();
  }
}
