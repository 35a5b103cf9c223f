/**
 * The calls that the daemon runs or has queued, and the calls of the same
 * attachments that arrive later.
 *
 * An ADD may be cancelled while it runs, and the runtime may then attach the
 * container again through another process. Such an ADD is superseded: undoing it
 * would remove the new attachment.
 *
 * @module
 */

import { withChangeCheck } from "../../ffi/change_check.ts";
import type { LocalCall } from "../wire/daemon_timeouts.ts";
import { type CallSubject, type DaemonCall, readNetwork } from "./call.ts";
import type { CallProgress } from "./call_progress.ts";

/** How far the times of files can lag behind the clock, in ms. */
const CLOCK_MS = 50;

/** Why a call stops before it changes a later attachment. */
class Superseded extends Error {
  override readonly message = "the container has been attached again";
}

/** Why a GC stops before it removes attachments that its list might lack. */
class GarbageOutdated extends Error {
  override readonly message =
    "its caller disconnected, and attachments may have been added since";
}

/** A call that arrived after an earlier call of its attachment. */
interface LaterCall {
  readonly command: string;
  readonly progress: Pick<CallProgress, "runner" | "decision">;
}

/**
 * A call that runs or waits for its turn. It is superseded if it is given up and
 * the last call of its attachment that a different process runs is an ADD.
 */
export class RunningCall {
  readonly call: DaemonCall;
  readonly subject: CallSubject;
  /** When the call arrived, by the clock of file systems. */
  readonly startedAt: Date = new Date(Date.now() - CLOCK_MS);
  /** When the call arrived, by the process's clock, in ms. */
  readonly arrivedMs: number = performance.now();
  readonly progress: CallProgress;
  #waitedMs = 0;
  /** ADDs and DELs of the attachment that arrived later. */
  readonly #later: LaterCall[] = [];
  readonly #pollSockets: (() => void) | undefined;

  /**
   * @param pollSockets Records calls that have arrived but caused no event yet, because
   *   this process may have been stopped
   */
  constructor(
    call: DaemonCall,
    subject: CallSubject,
    pollSockets: (() => void) | undefined,
  ) {
    this.call = call;
    this.subject = subject;
    this.#pollSockets = pollSockets;
    this.progress = call.progress;
  }

  /** CNI_COMMAND. */
  get command(): string {
    return this.call.env["CNI_COMMAND"] ?? "";
  }

  /** How long the call waited for its turn, in ms; 0 if it did not run. */
  get waitedMs(): number {
    return this.#waitedMs;
  }

  /** Marks the call as running. */
  begin(): void {
    this.progress.enter("running");
    this.#waitedMs = performance.now() - this.arrivedMs;
  }

  /**
   * Records an ADD or a DEL of the same attachment that arrived later. An ADD stops a DEL
   * that continues without its caller.
   */
  recordLaterCall(later: LaterCall): void {
    this.#later.push(later);
    const isOver = this.command === "DEL" && later.command === "ADD" &&
      this.progress.isGivenUp();
    if (!isOver) return;
    this.progress.cancel(new Error("the container is attached again"));
  }

  /**
   * Reports whether the call is given up, and another process has attached the
   * container again. Waits until each later call is taken or declined: an ADD that this
   * daemon has taken waits for this call, which must be undone first.
   */
  async isSuperseded(): Promise<boolean> {
    if (!this.progress.isGivenUp()) return false;
    this.#poll();
    const later = [...this.#later];
    await Promise.all(later.map(({ progress }) => progress.decision));
    return isAttachedAgain(later);
  }

  /**
   * Ends a superseded call before it runs a plugin's DEL or deletes links.
   *
   * @throws {Error} If the call is superseded
   */
  async beforeDeletion(): Promise<void> {
    if (await this.isSuperseded()) throw new Superseded();
  }

  /**
   * Ends a superseded call before each change that a plugin makes, without waiting. A
   * later ADD counts before it is taken or declined, because the caller gave this call up
   * before that ADD. A GC that is given up ends, because its list of
   * attachments may be outdated. Work that a plugin has begun, such as a watch, may
   * continue after the call has ended.
   *
   * @throws {Error} If the call is superseded
   */
  beforeChange(): void {
    const { progress } = this;
    if (!progress.mayChangeNode || !progress.isGivenUp()) return;
    if (this.command === "GC") throw new GarbageOutdated();
    this.#poll();
    if (isAttachedAgain(this.#later)) throw new Superseded();
  }

  /** Reads the sockets. The calls that arrive are not part of this call's trace. */
  #poll(): void {
    withChangeCheck(undefined, () => this.#pollSockets?.());
  }
}

/** Reports whether the last call that this daemon has not taken is an ADD. */
function isAttachedAgain(later: readonly LaterCall[]): boolean {
  const last = later.findLast(({ progress }) => progress.runner !== "daemon");
  return last?.command === "ADD";
}

/** All calls that run or wait. */
export class RunningCalls {
  readonly #calls = new Set<RunningCall>();
  #onIdle: (() => void) | undefined;

  get size(): number {
    return this.#calls.size;
  }

  /**
   * Adds a call until disposal, which marks it as ended. A DEL cancels every ADD of its
   * attachment, and every DEL without a caller, because it does the same.
   */
  add(running: RunningCall): Disposable {
    if (running.command === "DEL") this.#cancelEarlier(running.subject);
    this.#calls.add(running);
    return {
      [Symbol.dispose]: (): void => {
        running.progress.enter("ended");
        this.#calls.delete(running);
        if (this.#calls.size === 0) this.#onIdle?.();
      },
    };
  }

  #cancelEarlier({ attachment }: CallSubject): void {
    for (const running of this.#calls) {
      const { command, subject, progress } = running;
      if (subject.attachment !== attachment) continue;
      const isRepeated = command === "DEL" && progress.isGivenUp();
      if (command !== "ADD" && !isRepeated) continue;
      progress.cancel(new Error("a DEL of the attachment arrived"));
    }
  }

  /** Cancels all calls. */
  cancelAll(reason: Error): void {
    for (const { progress } of this.#calls) progress.cancel(reason);
  }

  /** Resolves when no call runs or waits. */
  async idle(): Promise<true> {
    if (this.#calls.size === 0) return true;
    const { promise, resolve } = Promise.withResolvers<true>();
    this.#onIdle = (): void => resolve(true);
    return await promise;
  }

  /**
   * Records a call that was offered and is not taken, for earlier calls of its
   * attachment.
   */
  recordOffered(
    { env, stdin }: Pick<DaemonCall, "env" | "stdin">,
    progress: CallProgress,
  ): void {
    const { CNI_COMMAND: command = "" } = env;
    if (!["ADD", "DEL"].includes(command)) return;
    const { CNI_CONTAINERID: containerId, CNI_IFNAME: ifName } = env;
    for (const running of this.#find({ containerId, ifName })) {
      if (running.subject.network !== readNetwork(stdin)) continue;
      running.recordLaterCall({ command, progress });
    }
  }

  /**
   * Records calls that their callers ran while the daemon was turned off, in order.
   *
   * @param calls Undefined if the calls are unknown
   */
  recordLocalCalls(calls: readonly LocalCall[] | undefined): void {
    const progress = { runner: "caller", decision: Promise.resolve() } as const;
    if (calls === undefined) {
      // A runtime or the node daemon can remove an orphan, but not restore an attachment.
      for (const running of this.#calls) {
        running.recordLaterCall({ command: "ADD", progress });
      }
    }
    for (const { command, network, ...names } of calls ?? []) {
      for (const running of this.#find(names)) {
        if (running.subject.network !== network) continue;
        running.recordLaterCall({ command, progress });
      }
    }
  }

  /** Reports whether a call of a container runs or waits. */
  hasContainer(containerId: string): boolean {
    return this.#calls.values()
      .some(({ call }) => call.env["CNI_CONTAINERID"] === containerId);
  }

  /** Finds the calls of an interface. */
  *#find(
    { containerId, ifName }: Record<
      "containerId" | "ifName",
      string | undefined
    >,
  ): Generator<RunningCall> {
    for (const running of this.#calls) {
      const { CNI_CONTAINERID, CNI_IFNAME } = running.call.env;
      const isOf = CNI_CONTAINERID === containerId && CNI_IFNAME === ifName;
      if (isOf) yield running;
    }
  }
}
