/**
 * The daemon's side of its own protocol: turns connections into calls.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";
import { describeError, formatFailure } from "../../base/error.ts";
import type { PluginLookup } from "../../cni/invoke/in_process.ts";
import { CURRENT_VERSION } from "../../cni/version.ts";
import type { Log } from "../../base/log/log.ts";
import type { Peer } from "../../ffi/socket/unix_socket.ts";
import type { Admission, RefusalReason } from "../../base/service/admission.ts";
import type { CallIdentity, DaemonCall, Outcome } from "./call.ts";
import { CallProgress } from "./call_progress.ts";
import type { Calls } from "./calls.ts";
import {
  PrivateSocket,
  type RequestExchange,
} from "../../base/service/private_socket.ts";
import {
  type CallerAttributes,
  findDifference,
  type OwnAttributes,
  readCallerAttributes,
} from "./caller_check.ts";
import { PeerProcess } from "../../base/service/peer_process.ts";
import {
  type CallRequest,
  decodeRequest,
  encodeMessage,
} from "../wire/request.ts";
import type { DeclineReason } from "./decline_reasons.ts";
import { RequestBuffer } from "./request_buffer.ts";
import type { ServerConnection } from "../../base/service/unix_server.ts";

/** Longest request, in bytes. */
const MAX_REQUEST = 16 * 1024 * 1024;

/** Time between two heartbeats, in ms. */
export const ALIVE_MS = 1000;

/** The call of a plugin that replaces the call of a different program. */
export interface TranslatedCall
  extends Pick<DaemonCall, "plugin" | "env" | "stdin" | "onStderr"> {
  /**
   * Converts the plugin's output to the program's output, or declines the call even
   * though the plugin has run. Never throws.
   */
  readonly convert: (output: PluginOutput) => Promise<Outcome>;
}

type PluginOutput = Exclude<Outcome, { readonly declined: DeclineReason }>;

/** Options of a {@linkcode CallSocket}. */
export interface CallSocketOptions {
  /** Finds plugins by type. */
  readonly lookup: PluginLookup;
  /**
   * Translates calls of programs that are not plugins. Returns undefined for all
   * others, and a reason if the call is declined.
   */
  readonly translate?:
    | ((
      request: CallRequest,
    ) => Promise<TranslatedCall | DeclineReason | undefined>)
    | undefined;
  /**
   * Identifies the attachment of a call that `translate` translates, so that it has
   * the same place in the queue, declined or not. Returns undefined for all others.
   */
  readonly identify?:
    | ((request: CallRequest) => CallIdentity | undefined)
    | undefined;
  /** Runs the calls. */
  readonly calls: Pick<
    Calls,
    "recordOffered" | "run" | "report" | "waitForEarlier"
  >;
  /** The attributes of this process, which a caller must share. */
  readonly own: OwnAttributes;
  /** Reads the attributes of a caller; {@linkcode readCallerAttributes} by default. */
  readonly readAttributes?: (directory: string) => CallerAttributes;
  readonly log: Pick<Log, "warn" | "info">;
  /**
   * Called for each call that is declined, with the plugin and the
   * command if they are known.
   */
  readonly onDeclined: (reason: DeclineReason, call?: string) => void;
  /** See {@linkcode MAX_REQUEST}. */
  readonly maxRequest?: number;
  /** Least time for a request to arrive, in ms; 10 s by default. */
  readonly requestTimeoutMs?: number;
  /** Bounds on connections, together with other sockets'; its own if undefined. */
  readonly admission?: Admission;
}

/** The server of calls. */
export class CallSocket extends PrivateSocket {
  /** Creates the server; `listen()` opens its socket. */
  constructor(options: CallSocketOptions) {
    const heartbeats = new Heartbeats();
    super({
      what: "a call",
      log: options.log,
      requestTimeoutMs: options.requestTimeoutMs,
      admission: options.admission,
      begin: (connection, onEnded) =>
        new CallExchange(connection, options, heartbeats, onEnded),
    });
  }
}

/** Sends callers a message each second while their calls wait or run. */
class Heartbeats {
  readonly #connections = new Set<ServerConnection>();
  #isTicking = false;
  #lastMs = 0;

  /** Starts a caller's heartbeats, which stop when the returned object is disposed. */
  begin(connection: ServerConnection): Disposable {
    this.#connections.add(connection);
    this.#tick();
    return {
      [Symbol.dispose]: () => {
        this.#connections.delete(connection);
      },
    };
  }

  /** All calls share a timer: a timer for each call would wake the process long after the call. */
  async #tick(): Promise<void> {
    if (this.#isTicking) return;
    this.#isTicking = true;
    this.#lastMs = performance.now();
    while (this.#connections.size > 0) {
      await pause(ALIVE_MS);
      this.#send();
    }
    this.#isTicking = false;
  }

  /**
   * Sends the messages between two steps of a call if the timer is late: the event
   * loop might not run during a series of calls, or the process gets little CPU time.
   */
  poll(): void {
    if (performance.now() - this.#lastMs > ALIVE_MS) this.#send();
  }

  #send(): void {
    this.#lastMs = performance.now();
    for (const connection of this.#connections) connection.send(ALIVE);
  }
}

const ALIVE = encodeMessage("alive");

/** One connection: a request, and its answer. */
class CallExchange implements RequestExchange {
  readonly #connection: ServerConnection;
  readonly #options: CallSocketOptions;
  readonly #heartbeats: Heartbeats;
  readonly #onEnded: () => void;
  readonly #gone = new AbortController();
  readonly #progress = new CallProgress({
    signal: this.#gone.signal,
    poll: () => {
      this.#connection.poll();
      this.#heartbeats.poll();
    },
  });
  readonly #process: PeerProcess;
  readonly #buffer = new RequestBuffer();
  /** The plugin and the command, after the request was read. */
  #call: string | undefined;

  constructor(
    connection: ServerConnection,
    options: CallSocketOptions,
    heartbeats: Heartbeats,
    onEnded: () => void,
  ) {
    this.#connection = connection;
    this.#process = new PeerProcess(connection);
    this.#options = options;
    this.#heartbeats = heartbeats;
    this.#onEnded = onEnded;
  }

  onData(bytes: Uint8Array<ArrayBuffer>): void {
    if (this.#progress.state !== "arriving") return;
    const { maxRequest = MAX_REQUEST } = this.#options;
    try {
      const request = this.#buffer.add(bytes, maxRequest);
      if (request !== undefined) this.#serve(request);
    } catch (error) {
      const isTooLong = error instanceof RangeError;
      this.#decline(isTooLong ? "request too long" : "malformed request");
    }
  }

  onGone(): void {
    this.#gone.abort(new Error("the caller disconnected"));
    if (this.#progress.state === "arriving") this.#buffer.free();
    this.#onEnded();
  }

  get bytes(): number {
    return this.#buffer.length;
  }

  get isBegun(): boolean {
    return this.#progress.runner === "daemon";
  }

  refuse(reason: RefusalReason): void {
    this.#decline(reason);
  }

  /** Serves a request, from its bytes to its answer. */
  async #serve(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    this.#progress.enter("offered");
    const { calls, log } = this.#options;
    let identity: CallIdentity | undefined;
    let outcome: Outcome | undefined;
    try {
      const request = decodeRequest(bytes);
      this.#call = describeCall(request);
      const { name, env, stdin } = request;
      identity = this.#options.identify?.(request) ??
        { plugin: { name }, env, stdin };
      calls.recordOffered(identity, this.#progress);
      const caller = this.#checkCaller(request);
      if (typeof caller === "string") {
        return await this.#declineInTurn(caller, identity);
      }
      const call = await this.#findCall(request);
      if (typeof call === "string") {
        return await this.#declineInTurn(call, identity);
      }
      // The caller may have disconnected already.
      if (this.#progress.isGivenUp() || !this.#take()) {
        return this.#decline("caller gone");
      }
      using _alive = this.#heartbeats.begin(this.#connection);
      const ended = await calls.run({
        ...call,
        exe: caller.exe,
        from: describePeer(this.#connection.peer),
        progress: this.#progress,
      });
      outcome = "declined" in ended.outcome || !("convert" in call)
        ? ended.outcome
        : await call.convert(ended.outcome);
      this.#answer(outcome);
      calls.report(ended);
    } catch (error) {
      const description = { error: describeError(error) };
      if (!this.isBegun) {
        if (identity === undefined) {
          log.warn("Cannot read a request", description);
          return this.#decline("malformed request");
        }
        log.warn("Cannot prepare a call", description);
        return await this.#declineInTurn("call not prepared", identity);
      }
      // The caller would run a declined call again, but this call may have changed the node.
      log.warn("Cannot finish a call", description);
      if (outcome !== undefined) return;
      this.#answer(formatFailure(error, CURRENT_VERSION));
    }
  }

  /** Returns the attributes of the caller, or why its calls are declined. */
  #checkCaller(request: CallRequest): CallerAttributes | DeclineReason {
    const { own, readAttributes = readCallerAttributes, log } = this.#options;
    const { peer } = this.#connection;
    if (peer.uid !== Deno.uid()) return "another user";
    let caller: CallerAttributes;
    try {
      caller = this.#process.read(readAttributes);
    } catch (error) {
      log.info("Cannot read the caller's process", {
        from: describePeer(peer),
        error: describeError(error),
      });
      return this.#progress.isGivenUp() ? "caller gone" : "unknown process";
    }
    return findDifference(own, request, caller) ?? caller;
  }

  /** Finds the plugin, or translates the call of a different program. */
  async #findCall(
    request: CallRequest,
  ): Promise<
    Omit<TranslatedCall, "convert"> | TranslatedCall | DeclineReason
  > {
    const { lookup, translate } = this.#options;
    const { name, env, stdin } = request;
    const plugin = await lookup(name);
    if (plugin === undefined) {
      return await translate?.(request) ?? "no such plugin";
    }
    const onStderr = (stderr: string): void => {
      this.#connection.send(encodeMessage({ stderr }));
    };
    return { plugin, env, stdin, onStderr };
  }

  /** Takes the call, unless the caller has stopped waiting for that. */
  #take(): boolean {
    const isSent = this.#connection.send(encodeMessage("taken"));
    return isSent && !this.#progress.signal.aborted &&
      this.#progress.enter("waiting");
  }

  /** Declines a call when the earlier calls of its attachment have ended. */
  async #declineInTurn(
    reason: DeclineReason,
    call: CallIdentity,
  ): Promise<void> {
    const { signal } = this.#progress;
    const earlier = this.#options.calls.waitForEarlier(call, signal);
    // The caller waits only a second for `taken`.
    if (earlier !== undefined && this.#take()) {
      using _alive = this.#heartbeats.begin(this.#connection);
      await earlier;
    }
    this.#decline(reason);
  }

  /** Declines the call, and counts it once: another part may have declined it already. */
  #decline(reason: DeclineReason): void {
    const isIncomplete = this.#progress.state === "arriving";
    if (!this.#progress.enter("ended")) return;
    if (isIncomplete) this.#buffer.free();
    this.#answer({ declined: reason });
  }

  #answer(outcome: Outcome): void {
    if ("declined" in outcome) {
      this.#options.onDeclined(outcome.declined, this.#call);
      this.#end(outcome);
    } else {
      const { stdout, exitCode } = outcome;
      this.#end({ stdout, exitCode });
    }
  }

  #end(message: Parameters<typeof encodeMessage>[0]): void {
    this.#connection.send(encodeMessage(message));
    this.#connection.end();
    this.#onEnded();
  }
}

/** Longest description of a call: the caller chooses both words. */
const MAX_DESCRIPTION = 100;

function describeCall({ name, env }: CallRequest): string {
  const text = `${name} ${env["CNI_COMMAND"] ?? ""}`.trim();
  return text.slice(0, MAX_DESCRIPTION);
}

function describePeer({ pid, uid }: Peer): string {
  return `process ${pid} of user ${uid}`;
}
