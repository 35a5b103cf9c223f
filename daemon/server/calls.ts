/**
 * The queue of calls: a call runs when the earlier calls of its attachment have ended
 * and a slot is free.
 *
 * @module
 */

import {
  JoinedSignal,
  waitUntil,
  yieldToEventLoop,
} from "../../base/deadline.ts";
import { KeyedQueue, type Turn } from "../../base/queue.ts";
import type { LinkDeletion } from "../../cni/call/link_deletion.ts";
import type { LocalCall } from "../wire/daemon_timeouts.ts";
import {
  type CallIdentity,
  cancelledOutcome,
  codeOf,
  type DaemonCall,
  type EndedCall,
  type Outcome,
  readSubject,
} from "./call.ts";
import type { CallProgress } from "./call_progress.ts";
import { runCall, type RunOptions } from "./run_call.ts";
import { RunningCall, RunningCalls } from "./running_calls.ts";

/** Follows calls for traces, without an effect on the calls. */
export interface CallTrace {
  /** Runs a call by calling `run`: everything that happens during `run` is part of the call. */
  readonly around: (
    call: DaemonCall,
    run: () => Promise<EndedCall>,
  ) => Promise<EndedCall>;
  /** Follows the deletion of links, which happens on another thread. */
  readonly linkDeletion: (deletion: LinkDeletion) => LinkDeletion;
}

/** Options of {@linkcode Calls}. */
export interface CallsOptions extends RunOptions {
  /** How many calls can run at the same time. */
  readonly maxCalls: number;
  /** See {@linkcode MAX_BEGUN}. */
  readonly maxBegun?: number;
  /**
   * Whether the calls of a container run one at a time; by default, the calls of an
   * attachment do.
   */
  readonly isPerContainer?: boolean;
  readonly onEnded?: (call: EndedCall) => void;
  /** Records calls that have arrived but caused no event yet. */
  readonly pollSockets?: () => void;
  readonly trace?: CallTrace | undefined;
}

/**
 * How many calls can have begun, including those that wait for other processes: it
 * bounds the plugins that run as processes, and the files that calls have open.
 */
export const MAX_BEGUN = 512;

/**
 * Time for calls to finish when the daemon stops, and then for undos, in ms. systemd
 * and the kubelet kill the daemon after 20 s.
 */
const GRACE_MS = 10_000, STOP_UNDO_MS = 5000;

/** How many calls can wait. `Admission` bounds the total size of their requests. */
const MAX_WAITING = 4096;

/**
 * Returns how a call gets its slot. STATUS is short, and the node is not ready until it
 * is answered. DEL and CHECK end sooner than ADD, and DEL releases what an ADD might
 * wait for.
 */
function turnOf(command: string): Turn {
  if (command === "STATUS") return "without a slot";
  return ["DEL", "CHECK"].includes(command) ? "first" : "in order";
}

/** Runs calls. */
export class Calls {
  readonly #options: CallsOptions;
  readonly #queue: KeyedQueue;
  readonly #running = new RunningCalls();
  /** Work on containers; their calls wait until it has ended. */
  readonly #work = new Map<string, Promise<void>>();
  readonly #stop = new AbortController();

  /** Starts with no calls. */
  constructor(options: CallsOptions) {
    this.#options = options;
    const { maxCalls, maxBegun = MAX_BEGUN } = options;
    this.#queue = new KeyedQueue(maxCalls, Math.max(maxCalls, maxBegun));
  }

  /** How many calls run, including those in a long wait. */
  get running(): number {
    return this.#queue.running + this.#queue.yielding;
  }

  /** How many calls wait for their turn. */
  get waiting(): number {
    return this.#queue.waiting;
  }

  /**
   * Runs a call when it is its turn. Never throws. Call {@linkcode report} after the
   * answer, so that the caller does not wait for the log line.
   */
  async run(call: DaemonCall): Promise<EndedCall> {
    const { trace } = this.#options;
    return trace === undefined
      ? await this.#run(call)
      : await trace.around(call, () => this.#run(call));
  }

  async #run(call: DaemonCall): Promise<EndedCall> {
    const { isPerContainer = false, pollSockets } = this.#options;
    const subject = readSubject(call, isPerContainer);
    const running = new RunningCall(call, subject, pollSockets);
    const outcome = await this.#runInTurn(running);
    return {
      call,
      outcome,
      plugin: call.plugin.name,
      command: running.command,
      network: subject.network,
      code: codeOf(outcome),
      ms: performance.now() - running.arrivedMs,
      waitedMs: running.waitedMs,
    };
  }

  async #runInTurn(running: RunningCall): Promise<Outcome> {
    const { call, subject, progress } = running;
    const { signal } = progress;
    const turn = turnOf(running.command);
    const isFull = this.#queue.waiting >= MAX_WAITING &&
      turn !== "without a slot";
    using _added = this.#running.add(running);
    // Even a declined call waits for the earlier calls of its attachment: its caller
    // would otherwise run it before them.
    const untilSlot = isFull ? AbortSignal.abort() : this.#stop.signal;
    const { queueKey } = subject;
    const work = this.#work.get(call.env["CNI_CONTAINERID"] ?? "");
    const wait = { untilSlot, work, turn };
    using slot = await this.#queue.wait(queueKey, signal, wait);
    if (slot === undefined) {
      if (signal.aborted) return cancelledOutcome(subject, signal);
      return { declined: isFull ? "too many calls wait" : "the daemon ends" };
    }
    // Otherwise a series of calls would keep the daemon from taking further calls.
    await yieldToEventLoop();
    // The caller may have disconnected while this process was stopped.
    if (progress.isGivenUp()) return cancelledOutcome(subject, signal);
    running.begin();
    const { yieldDuring } = slot;
    return await runCall(running, { yieldDuring }, this.#options);
  }

  /**
   * Waits until the earlier calls of an attachment have ended, for a declined call: its
   * caller would otherwise run it before them.
   *
   * @returns Undefined if there are none
   */
  waitForEarlier(
    call: CallIdentity,
    signal: AbortSignal,
  ): Promise<unknown> | undefined {
    const { isPerContainer = false } = this.#options;
    const { queueKey } = readSubject(call, isPerContainer);
    return queueKey !== undefined && this.#queue.has(queueKey)
      ? this.#queue.wait(queueKey, signal, { untilSlot: AbortSignal.abort() })
      : undefined;
  }

  /**
   * Records a call that was offered and is not taken. If its caller runs it instead, an
   * earlier call that still runs here must not undo it.
   */
  recordOffered(
    call: Pick<DaemonCall, "env" | "stdin">,
    progress: CallProgress,
  ): void {
    this.#running.recordOffered(call, progress);
  }

  /**
   * Records calls that their callers ran while the daemon was turned off, in order.
   *
   * @param calls Undefined if the calls are unknown
   */
  recordLocalCalls(calls: readonly LocalCall[] | undefined): void {
    this.#running.recordLocalCalls(calls);
  }

  /**
   * Runs work on a container while none of its calls runs. Calls that arrive during
   * the work wait for it.
   *
   * @param work Must not take long, because a runtime may wait
   * @returns Undefined if a call runs or waits; then nothing is done
   */
  async whileIdle<T>(
    containerId: string,
    work: () => Promise<T>,
  ): Promise<T | undefined> {
    const isBusy = this.#stop.signal.aborted || this.#work.has(containerId) ||
      this.#running.hasContainer(containerId);
    if (isBusy) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#work.set(containerId, promise);
    try {
      return await work();
    } finally {
      this.#work.delete(containerId);
      resolve();
    }
  }

  /** Counts and logs a call that has ended. */
  report(ended: EndedCall): void {
    const { log, onEnded } = this.#options;
    const { call, outcome, code, ms, waitedMs } = ended;
    onEnded?.(ended);
    log.info("call", {
      plugin: ended.plugin,
      command: ended.command,
      network: ended.network,
      container: call.env["CNI_CONTAINERID"],
      ifname: call.env["CNI_IFNAME"],
      ..."declined" in outcome ? { declined: outcome.declined } : { code },
      ms: ms.toFixed(1),
      waitedMs: waitedMs.toFixed(1),
      from: call.from,
    });
  }

  /**
   * Begins no further calls, and waits for the running calls. Waiting calls are declined
   * when the earlier calls of their attachments have ended.
   *
   * @param withinMs Time until running calls are cancelled, in ms; 10 s by default
   * @param undoMs Time for the undo of cancelled ADDs, in ms; 5 s by default
   */
  async stop(withinMs = GRACE_MS, undoMs = STOP_UNDO_MS): Promise<void> {
    this.#stop.abort();
    if (this.#running.size === 0) return;
    const idle = this.#running.idle();
    using within = new JoinedSignal(withinMs);
    if (await waitUntil(idle, within.signal)) return;
    this.#running.cancelAll(new Error("the daemon ends"));
    using limit = new JoinedSignal(undoMs);
    await waitUntil(idle, limit.signal);
  }
}
