/**
 * Runs calls of plugins in this process, for callers that wait elsewhere.
 *
 * @module
 */

import type { Environment } from "../../base/process/environment.ts";
import type { LocalCall } from "../wire/daemon_timeouts.ts";
import { NO_DAEMON } from "../wire/daemon_socket.ts";
import { JoinedSignal, waitUntil } from "../../base/deadline.ts";
import { CniError, ErrorCode, formatFailure } from "../../base/error.ts";
import {
  createInvoker,
  type PluginLookup,
} from "../../cni/invoke/in_process.ts";
import type {
  DispatchInput,
  DispatchOutput,
  Invocation,
  YieldDuring,
} from "../../cni/call/context.ts";
import { isObject } from "../../base/json/json.ts";
import type { Log } from "../../base/log/log.ts";
import type { Plugin } from "../../cni/plugin.ts";
import { dispatch } from "../../cni/skel.ts";
import { type LinkDeletion, unbatched } from "../../cni/call/link_deletion.ts";
import { CURRENT_VERSION, isSpecVersion } from "../../cni/version.ts";
import type { DeclineReason } from "../service/decline_reasons.ts";
import { KeyedQueue } from "../../base/queue.ts";

/** The process that waits for a call. */
export interface Caller {
  /** Aborted when the caller is gone. */
  readonly signal: AbortSignal;
  /** Aborts the signal now if the caller is gone and no event has reported it yet. */
  readonly poll: () => void;
}

/** A call. */
export interface DaemonCall extends Caller {
  readonly plugin: Plugin;
  readonly env: Environment;
  /** The configuration, byte for byte. */
  readonly stdin: Uint8Array;
  /** Receives log text as it is written. */
  readonly onStderr: (text: string) => void;
  /**
   * The caller's executable, as `findFileId` identifies it: plugins that are
   * the same file run in this process.
   */
  readonly exe?: string;
  /** The caller, in the log. */
  readonly from: string;
}

/** The output of a call, or why it was not begun. */
export type Outcome =
  | Pick<DispatchOutput, "stdout" | "exitCode">
  | { readonly declined: DeclineReason };

/** A call that has ended. */
export interface EndedCall {
  readonly call: DaemonCall;
  readonly outcome: Outcome;
  /** The plugin's type. */
  readonly plugin: string;
  readonly command: string;
  /** The name in the configuration; "" for none. */
  readonly network: string;
  /** The code of the error; 0 if it succeeded, -1 if it was not begun. */
  readonly code: number;
  /** From its arrival to its answer, in ms. */
  readonly ms: number;
  /** The part of it until its turn, in ms. */
  readonly waitedMs: number;
}

/** Follows calls, for traces; they run as without it. */
export interface CallTrace {
  /** Runs a call by calling `run`: what is done meanwhile is part of it. */
  readonly around: (
    call: DaemonCall,
    run: () => Promise<EndedCall>,
  ) => Promise<EndedCall>;
  /** Follows the deletion of links, which happens on another thread. */
  readonly linkDeletion: (deletion: LinkDeletion) => LinkDeletion;
}

/** Options of {@linkcode Calls}. */
export interface CallsOptions {
  /** Finds plugins that run in this process. */
  readonly lookup: PluginLookup;
  /** Path of the namespace that stands for the host. */
  readonly hostNetns: string;
  /** Deletes links of several calls at once. */
  readonly linkDeletion?: LinkDeletion | undefined;
  /** How many calls may run at once. */
  readonly maxCalls: number;
  /**
   * Whether the calls of a container run one after the other; by default, those
   * of an attachment.
   */
  readonly isPerContainer?: boolean;
  readonly log: Pick<Log, "info" | "warn">;
  readonly onEnded?: (call: EndedCall) => void;
  readonly trace?: CallTrace | undefined;
  /** Receives the ID of each process that is started for a plugin. */
  readonly onChild?: ((pid: number) => void) | undefined;
  /** Notes calls that have come and have had no event yet ({@linkcode Calls.note}). */
  readonly pollSockets?: () => void;
  /** How long an undo may wait for other plugins, in ms. */
  readonly undoMs?: number;
}

/** Calls that may wait. `Admission` bounds the bytes of their requests together. */
const MAX_WAITING = 4096;

/** See {@linkcode CallsOptions.undoMs}. */
const UNDO_MS = 30_000;

/** How far the times of files may lag behind, in ms. */
const CLOCK_MS = 50;

/** Why a call is ended. */
class Cancelled extends Error {}

/** Why a call stops short of undoing what another has done. */
class Superseded extends Error {
  override readonly message = "the container was attached again meanwhile";
}

/** A call in the daemon. */
interface Entry {
  readonly call: DaemonCall;
  readonly command: string;
  readonly subject: Subject;
  /** When it arrived, by the clock of file systems. */
  readonly startedAt: Date;
  /** Ends it. */
  readonly end: AbortController;
  /** ADDs and DELs of its attachment that have arrived since, and whether they are declined. */
  readonly later: { command: string; isDeclined: Promise<boolean> }[];
}

/** Runs calls. */
export class Calls {
  readonly #options: CallsOptions;
  readonly #queue: KeyedQueue;
  readonly #entries = new Set<Entry>();
  readonly #stop = new AbortController();
  #onIdle: (() => void) | undefined;

  /** Starts with no calls. */
  constructor(options: CallsOptions) {
    this.#options = options;
    this.#queue = new KeyedQueue(options.maxCalls);
  }

  /** How many calls run. */
  get running(): number {
    return this.#queue.running;
  }

  /** How many calls wait for their turn. */
  get waiting(): number {
    return this.#queue.waiting;
  }

  /**
   * Runs a call when it is its turn. Never throws. {@linkcode report} is for
   * after the answer: whoever waits for a call need not wait for its log line.
   */
  async run(call: DaemonCall): Promise<EndedCall> {
    const { trace } = this.#options;
    return trace === undefined
      ? await this.#run(call)
      : await trace.around(call, () => this.#run(call));
  }

  async #run(call: DaemonCall): Promise<EndedCall> {
    const arrivedMs = performance.now();
    const command = call.env["CNI_COMMAND"] ?? "";
    const subject = readSubject(call, this.#options.isPerContainer);
    const startedAt = new Date(Date.now() - CLOCK_MS);
    const end = new AbortController();
    const later: Entry["later"] = [];
    const entry = { call, command, subject, startedAt, end, later };
    let startedMs = arrivedMs;
    const outcome = await this.#runEntry(entry, () => {
      startedMs = performance.now();
    });
    return {
      call,
      outcome,
      plugin: call.plugin.name,
      command,
      network: subject.network,
      code: codeOf(outcome),
      ms: performance.now() - arrivedMs,
      waitedMs: startedMs - arrivedMs,
    };
  }

  async #runEntry(entry: Entry, onTurn: () => void): Promise<Outcome> {
    const { call, command, subject } = entry;
    if (this.#stop.signal.aborted) return { declined: "the daemon ends" };
    if (this.#queue.waiting >= MAX_WAITING) {
      return { declined: "too many calls wait" };
    }
    if (command === "DEL") this.#endAdds(subject);
    this.#entries.add(entry);
    try {
      const { signal } = new JoinedSignal(call.signal, entry.end.signal);
      using untilTurn = new JoinedSignal(signal, this.#stop.signal);
      using slot = await this.#queue.wait(subject.line, untilTurn.signal);
      if (slot === undefined) {
        return signal.aborted
          ? fail(subject, signal)
          : { declined: "the daemon ends" };
      }
      // It may have gone while this process was stopped.
      call.poll();
      if (signal.aborted) return fail(subject, signal);
      onTurn();
      return await this.#dispatch(entry, {
        signal,
        yieldDuring: slot.yieldDuring,
      });
    } finally {
      this.#entries.delete(entry);
      if (this.#entries.size === 0) this.#onIdle?.();
    }
  }

  /** Ends every ADD of an attachment that is about to be deleted. */
  #endAdds({ attachment }: Subject): void {
    for (const { command, subject, end } of this.#entries) {
      if (command !== "ADD" || subject.attachment !== attachment) continue;
      end.abort(new Cancelled("a DEL of the attachment has come"));
    }
  }

  async #dispatch(
    entry: Entry,
    limits: { readonly signal: AbortSignal; readonly yieldDuring: YieldDuring },
  ): Promise<Outcome> {
    const { call, command, subject, startedAt, end } = entry;
    const output = await this.#runPlugin(entry, { ...limits, startedAt });
    const { signal } = limits;
    call.poll();
    if (!signal.aborted || command !== "ADD") return output;
    // After a DEL that has come, the DEL itself undoes the rest.
    if (!(end.signal.reason instanceof Cancelled)) {
      await this.#undo(entry, output, limits.yieldDuring);
    }
    return fail(subject, signal);
  }

  /**
   * Notes a call that has come and is not begun. If its caller runs it instead, an
   * earlier one that still runs here must not undo it.
   *
   * @param isDeclined Whether its caller runs it
   */
  note(
    { env, stdin }: Pick<DaemonCall, "env" | "stdin">,
    isDeclined: Promise<boolean>,
  ): void {
    const { CNI_COMMAND: command = "" } = env;
    if (!["ADD", "DEL"].includes(command)) return;
    const { CNI_CONTAINERID: containerId, CNI_IFNAME: ifName } = env;
    for (const { subject, later } of this.#find({ containerId, ifName })) {
      if (subject.network !== (readConfig(stdin).get("name") ?? "")) continue;
      later.push({ command, isDeclined });
    }
  }

  /**
   * Notes calls that their callers ran while the daemon was turned off, in order.
   *
   * @param calls Undefined if they may be any
   */
  noteLocalCalls(calls: readonly LocalCall[] | undefined): void {
    const isDeclined = Promise.resolve(true);
    if (calls === undefined) {
      // What is left can be removed; a later attachment would be lost.
      for (const { later } of this.#entries) {
        later.push({ command: "ADD", isDeclined });
      }
    }
    for (const { command, network, ...names } of calls ?? []) {
      for (const { subject, later } of this.#find(names)) {
        if (subject.network === network) later.push({ command, isDeclined });
      }
    }
  }

  /** Finds the calls of an interface. */
  *#find(
    names: Record<"containerId" | "ifName", string | undefined>,
  ): Generator<Entry> {
    for (const entry of this.#entries) {
      const { CNI_CONTAINERID, CNI_IFNAME } = entry.call.env;
      const isOf = CNI_CONTAINERID === names.containerId &&
        CNI_IFNAME === names.ifName;
      if (isOf) yield entry;
    }
  }

  /**
   * Reports whether a call's caller is gone, and its attachment was made again by
   * another process. This process may have stood still meanwhile.
   */
  async #isSuperseded({ call, later }: Entry): Promise<boolean> {
    call.poll();
    if (!call.signal.aborted) return false;
    this.#options.pollSockets?.();
    const declined = await Promise.all(
      later.map(({ isDeclined }) => isDeclined),
    );
    return later.findLast((_, index) => declined[index])?.command === "ADD";
  }

  /** @throws {Superseded} */
  async #checkNotSuperseded(entry: Entry): Promise<void> {
    if (await this.#isSuperseded(entry)) throw new Superseded();
  }

  /** Deletes links with those of other calls, but none of a later attachment. */
  #linkDeletionFor(entry: Entry): LinkDeletion {
    const { linkDeletion = unbatched } = this.#options;
    return {
      now: async (links, deleteLinks) => {
        await this.#checkNotSuperseded(entry);
        await linkDeletion.now(links, deleteLinks);
      },
      later: async (links, deleteLinks) => {
        await this.#checkNotSuperseded(entry);
        await linkDeletion.later(links, deleteLinks);
      },
    };
  }

  /** Runs another plugin; nothing follows an ADD whose caller is gone. */
  async #invoke(
    entry: Entry,
    { env: { CNI_COMMAND: command } }: Invocation,
    run: () => Promise<string>,
  ): Promise<string> {
    if (command === "DEL") await this.#checkNotSuperseded(entry);
    const output = await run();
    if (command !== "ADD") return output;
    const { poll, signal } = entry.call;
    poll();
    signal.throwIfAborted();
    return output;
  }

  async #runPlugin(
    entry: Entry,
    changes: Partial<DispatchInput>,
  ): Promise<DispatchOutput> {
    const { plugin, env, stdin, onStderr, exe } = entry.call;
    const { lookup, hostNetns, onChild } = this.#options;
    const callers = exe === undefined ? [] : [exe];
    return await dispatch(plugin, {
      env: { ...env, [NO_DAEMON]: "1" },
      stdin: () => stdin,
      invoker: createInvoker(dispatch, lookup, {
        callers,
        onChild,
        around: (invocation, run) => this.#invoke(entry, invocation, run),
      }),
      hostNetns,
      linkDeletion: this.#linkDeletionFor(entry),
      onStderr,
      keepsLog: true,
      ...changes,
    });
  }

  /**
   * Runs the DEL that a runtime runs after an ADD whose outcome it did not get;
   * unless the runtime has already attached the container again.
   */
  async #undo(
    entry: Entry,
    { stdout, exitCode }: DispatchOutput,
    yieldDuring: YieldDuring,
  ): Promise<void> {
    const { log, undoMs = UNDO_MS } = this.#options;
    const { call } = entry;
    if (await this.#isSuperseded(entry)) {
      return log.info("The container was attached again: its ADD stays", {
        container: call.env["CNI_CONTAINERID"],
      });
    }
    const hasResult = exitCode === 0 && stdout !== "";
    const stdin = hasResult ? withResult(call.stdin, stdout) : call.stdin;
    const env = { ...call.env, CNI_COMMAND: "DEL" };
    using limit = new JoinedSignal(undoMs);
    const undone = await this.#runPlugin({ ...entry, call: { ...call, env } }, {
      stdin: () => stdin,
      signal: limit.signal,
      yieldDuring,
    });
    if (undone.exitCode === 0) return;
    log.warn("Cannot undo an ADD whose caller is gone", {
      plugin: call.plugin.name,
      container: call.env["CNI_CONTAINERID"],
      error: undone.stdout,
    });
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
      ..."declined" in outcome ? { notMine: outcome.declined } : { code },
      ms: ms.toFixed(1),
      waitedMs: waitedMs.toFixed(1),
      from: call.from,
    });
  }

  /**
   * Begins no further calls, and waits for those that run.
   *
   * @param withinMs After this time they are ended, in ms
   * @param undoMs Time for their undo, in ms
   */
  async stop(withinMs: number, undoMs: number): Promise<void> {
    this.#stop.abort();
    if (this.#entries.size === 0) return;
    const { promise: idle, resolve } = Promise.withResolvers<true>();
    this.#onIdle = (): void => resolve(true);
    using within = new JoinedSignal(withinMs);
    if (await waitUntil(idle, within.signal)) return;
    for (const { end } of this.#entries) {
      end.abort(new Error("the daemon ends"));
    }
    using limit = new JoinedSignal(undoMs);
    await waitUntil(idle, limit.signal);
  }
}

/** The subject of a call. */
interface Subject {
  readonly network: string;
  readonly cniVersion: string;
  /** Calls with the same text are about the same attachment. */
  readonly attachment: string | undefined;
  /** Calls with the same text run one after the other. */
  readonly line: string | undefined;
}

/** Commands of an attachment. */
const OF_ATTACHMENT = ["ADD", "DEL", "CHECK"];

function readSubject(
  { plugin, env, stdin }: DaemonCall,
  isPerContainer = false,
): Subject {
  const config = readConfig(stdin);
  const network = config.get("name") ?? "";
  const version = config.get("cniversion") ?? "";
  const { CNI_COMMAND, CNI_CONTAINERID, CNI_IFNAME } = env;
  const isOfAttachment = OF_ATTACHMENT.includes(CNI_COMMAND ?? "");
  const parts = [plugin.name, network, CNI_CONTAINERID, CNI_IFNAME];
  const attachment = isOfAttachment ? JSON.stringify(parts) : undefined;
  return {
    network,
    cniVersion: isSpecVersion(version) ? version : CURRENT_VERSION,
    attachment,
    line: isPerContainer && isOfAttachment ? CNI_CONTAINERID : attachment,
  };
}

/** Reads the texts of a configuration, by their keys in lower case. */
function readConfig(stdin: Uint8Array): Map<string, string> {
  const texts = new Map<string, string>();
  for (const [key, value] of Object.entries(parse(stdin))) {
    if (typeof value === "string") texts.set(key.toLowerCase(), value);
  }
  return texts;
}

/** The plugin itself refuses what is not an object. */
function parse(stdin: Uint8Array): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(stdin));
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

function withResult(stdin: Uint8Array, result: string): Uint8Array {
  const prevResult: unknown = JSON.parse(result);
  return new TextEncoder().encode(
    JSON.stringify({ ...parse(stdin), prevResult }),
  );
}

function fail({ cniVersion }: Subject, { reason }: AbortSignal): Outcome {
  const why = reason instanceof Error ? reason.message : String(reason);
  return formatFailure(
    new CniError(ErrorCode.TryAgainLater, `The call was ended: ${why}`, {
      details: "try again later",
    }),
    cniVersion,
  );
}

function codeOf(outcome: Outcome): number {
  if ("declined" in outcome) return -1;
  if (outcome.exitCode === 0) return 0;
  const { code } = parse(new TextEncoder().encode(outcome.stdout));
  return typeof code === "number" ? code : ErrorCode.Internal;
}
