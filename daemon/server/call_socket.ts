/**
 * The daemon's side of its own protocol: connections to calls.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";
import { describeError } from "../../base/error.ts";
import type { PluginLookup } from "../../cni/invoke/in_process.ts";
import type { Log } from "../../base/log/log.ts";
import type { Peer } from "../../ffi/socket/unix_socket.ts";
import type { Admission } from "../service/admission.ts";
import type { Call, Calls, Outcome } from "./calls.ts";
import { type Exchange, OwnSocket } from "../service/own_socket.ts";
import {
  type CallerWorld,
  findDifference,
  type OwnWorld,
  readCallerWorld,
} from "./caller_check.ts";
import { PeerProcess } from "../service/peer_process.ts";
import {
  type CallRequest,
  decodeRequest,
  encodeMessage,
} from "../wire/request.ts";
import type { Reason } from "../service/reasons.ts";
import { RequestBuffer } from "./request_buffer.ts";
import type { Connection } from "../service/unix_server.ts";

/** Longest request, in bytes. */
const MAX_REQUEST = 16 * 1024 * 1024;

/** Between two signs that a call waits or runs, in ms. */
const ALIVE_MS = 1000;

/** A task that the daemon runs for a program that is not a plugin. */
export interface Translation
  extends Pick<Call, "plugin" | "env" | "stdin" | "onStderr"> {
  /**
   * Converts the outcome to what the program prints; or says why the caller must
   * run the call all the same. Never throws: the caller would do so.
   */
  readonly answer: (outcome: Ran) => Promise<Outcome>;
}

type Ran = Exclude<Outcome, { readonly notMine: Reason }>;

/** Options of a {@linkcode CallSocket}. */
export interface CallSocketOptions {
  /** Finds plugins by type. */
  readonly lookup: PluginLookup;
  /**
   * Translates calls of programs that are not plugins. Returns undefined for all
   * others, and a reason if the caller must run the call itself.
   */
  readonly translate?:
    | ((request: CallRequest) => Promise<Translation | Reason | undefined>)
    | undefined;
  /** Runs them. */
  readonly calls: Pick<Calls, "note" | "run" | "report">;
  /** The world that a caller must share with this process. */
  readonly world: OwnWorld;
  /** Reads the world of a caller; {@linkcode readCallerWorld} by default. */
  readonly readWorld?: (directory: string) => CallerWorld;
  readonly log: Pick<Log, "warn" | "info">;
  /**
   * Called for each call that its caller must run itself, with the plugin and the
   * command if they are known.
   */
  readonly onNotMine: (reason: Reason, call?: string) => void;
  /** See {@linkcode MAX_REQUEST}. */
  readonly maxRequest?: number;
  /** Least time for a request to arrive, in ms; 10 s by default. */
  readonly patienceMs?: number;
  /** Bounds on connections, together with other sockets'; its own if undefined. */
  readonly admission?: Admission;
}

/** Serves calls. */
export class CallSocket extends OwnSocket {
  /** Creates it; `listen()` opens a socket. */
  constructor(options: CallSocketOptions) {
    const signs = new SignsOfLife();
    super({
      what: "a call",
      log: options.log,
      patienceMs: options.patienceMs,
      admission: options.admission,
      begin: (connection, onEnded) =>
        new Conversation(connection, options, signs, onEnded),
    });
  }
}

/** Tells callers that their calls wait or run. */
class SignsOfLife {
  readonly #connections = new Set<Connection>();
  #isTicking = false;

  /** Begins; they end with the disposal of what this returns. */
  begin(connection: Connection): Disposable {
    this.#connections.add(connection);
    this.#tick();
    return {
      [Symbol.dispose]: () => {
        this.#connections.delete(connection);
      },
    };
  }

  /** One timer for all: one each would wake this process up long after its call. */
  async #tick(): Promise<void> {
    if (this.#isTicking) return;
    this.#isTicking = true;
    while (this.#connections.size > 0) {
      await pause(ALIVE_MS);
      for (const connection of this.#connections) connection.send(ALIVE);
    }
    this.#isTicking = false;
  }
}

const ALIVE = encodeMessage("alive");

/** One connection: a request, and its answer. */
class Conversation implements Exchange {
  readonly #connection: Connection;
  readonly #options: CallSocketOptions;
  readonly #signs: SignsOfLife;
  readonly #onEnded: () => void;
  readonly #gone = new AbortController();
  /** Whether the caller must run the call itself, once that is known. */
  readonly #isLeft = Promise.withResolvers<boolean>();
  #isBegun = false;
  readonly #process: PeerProcess;
  readonly #buffer = new RequestBuffer();
  #hasRequest = false;
  #hasEnded = false;
  /** The plugin and the command, once they are known. */
  #call: string | undefined;

  constructor(
    connection: Connection,
    options: CallSocketOptions,
    signs: SignsOfLife,
    onEnded: () => void,
  ) {
    this.#connection = connection;
    this.#process = new PeerProcess(connection);
    this.#options = options;
    this.#signs = signs;
    this.#onEnded = onEnded;
  }

  onData(bytes: Uint8Array<ArrayBuffer>): void {
    if (this.#hasRequest) return;
    const { maxRequest = MAX_REQUEST } = this.#options;
    try {
      const request = this.#buffer.add(bytes, maxRequest);
      if (request !== undefined) this.#serve(request);
    } catch (error) {
      const isTooLong = error instanceof RangeError;
      this.#refuse(isTooLong ? "request too long" : "malformed request");
    }
  }

  onGone(): void {
    this.#gone.abort(new Error("the caller is gone"));
    if (!this.#hasRequest) this.#buffer.free();
    this.#onEnded();
  }

  get bytes(): number {
    return this.#buffer.length;
  }

  get isBegun(): boolean {
    return this.#isBegun;
  }

  refuse(reason: Reason): void {
    this.#refuse(reason);
  }

  /** Handles a request, from its bytes to its answer. */
  async #serve(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    this.#hasRequest = true;
    const { calls, log } = this.#options;
    try {
      const request = decodeRequest(bytes);
      this.#call = describeCall(request);
      calls.note(request, this.#isLeft.promise);
      const caller = this.#checkCaller(request);
      if (typeof caller === "string") return this.#refuse(caller);
      const work = await this.#findWork(request);
      if (typeof work === "string") return this.#refuse(work);
      // The end of the connection may have come already.
      this.#connection.look();
      if (!this.#take()) return this.#refuse("caller gone");
      using _alive = this.#signs.begin(this.#connection);
      const { answer, ...run } = work;
      const ended = await calls.run({
        ...run,
        exe: caller.exe,
        signal: this.#gone.signal,
        look: () => this.#connection.look(),
        from: describePeer(this.#connection.peer),
      });
      const { outcome } = ended;
      const answered = "notMine" in outcome ? outcome : await answer(outcome);
      if ("notMine" in answered) this.#refuse(answered.notMine);
      else {
        const { stdout, exitCode } = answered;
        this.#end({ stdout, exitCode });
      }
      calls.report(ended);
    } catch (error) {
      log.warn("Cannot read a request", { error: describeError(error) });
      this.#refuse("malformed request");
    }
  }

  /** Returns the caller's world, or why its calls are not for this process. */
  #checkCaller(request: CallRequest): CallerWorld | Reason {
    const { world, readWorld = readCallerWorld, log } = this.#options;
    const { peer } = this.#connection;
    if (peer.uid !== Deno.uid()) return "another user";
    let caller: CallerWorld;
    try {
      caller = this.#process.read(readWorld);
    } catch (error) {
      log.info("Cannot read the caller's process", {
        from: describePeer(peer),
        error: describeError(error),
      });
      this.#connection.look();
      return this.#gone.signal.aborted ? "caller gone" : "unknown process";
    }
    return findDifference(world, request, caller) ?? caller;
  }

  async #findWork(request: CallRequest): Promise<Translation | Reason> {
    const { lookup, translate } = this.#options;
    const { name, env, stdin } = request;
    const plugin = lookup(name);
    if (plugin === undefined) {
      return await translate?.(request) ?? "no such plugin";
    }
    return {
      plugin: await plugin,
      env,
      stdin,
      onStderr: (stderr) => this.#connection.send(encodeMessage({ stderr })),
      answer: (outcome) => Promise.resolve(outcome),
    };
  }

  /** Takes the call, unless the caller has stopped waiting for that. */
  #take(): boolean {
    const isSent = this.#connection.send(encodeMessage("taken"));
    if (!isSent || this.#gone.signal.aborted) return false;
    this.#isBegun = true;
    this.#isLeft.resolve(false);
    return true;
  }

  /** Leaves the call to its caller. Counts it once: others may have refused it meanwhile. */
  #refuse(reason: Reason): void {
    if (this.#hasEnded) return;
    this.#options.onNotMine(reason, this.#call);
    this.#isLeft.resolve(true);
    if (!this.#hasRequest) this.#buffer.free();
    this.#end({ notMine: reason });
  }

  #end(message: Parameters<typeof encodeMessage>[0]): void {
    this.#hasRequest = true;
    this.#hasEnded = true;
    this.#connection.send(encodeMessage(message));
    this.#connection.end();
    this.#onEnded();
  }
}

/** Most characters of a call's description: both words are the caller's. */
const MAX_DESCRIPTION = 100;

function describeCall({ name, env }: CallRequest): string {
  const text = `${name} ${env["CNI_COMMAND"] ?? ""}`.trim();
  return text.slice(0, MAX_DESCRIPTION);
}

function describePeer({ pid, uid }: Peer): string {
  return `process ${pid} of user ${uid}`;
}
