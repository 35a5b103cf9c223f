/**
 * The states of a call in the daemon, and which states can follow each of them.
 *
 * A call is given up if its caller disconnects, a DEL of its attachment arrives or the
 * daemon stops. This is not a state: an ADD ends as soon as it can and is undone, and
 * any other command continues. `RunningCall` decides what a call that was given up may
 * still change.
 *
 * @module
 */

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

/** Follows the state of a call. */
export class CallProgress {
  #state: CallState;
  #runner: "daemon" | "caller" | undefined;
  readonly #decision = Promise.withResolvers<void>();

  /** @param state `waiting` for a call that the daemon need not take */
  constructor(state: "arriving" | "waiting" = "arriving") {
    this.#state = state;
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
    if (next === "ended") this.#decide("caller");
    return true;
  }

  #decide(runner: "daemon" | "caller"): void {
    this.#runner ??= runner;
    this.#decision.resolve();
  }
}
