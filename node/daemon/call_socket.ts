/**
 * The daemon's side of its own protocol: connections to calls.
 *
 * @module
 */

import { describeError } from "../../cni/error.ts";
import type { PluginLookup } from "../../cni/invoke/in_process.ts";
import type { Log } from "../../cni/log.ts";
import type { Peer } from "../../ffi/unix_socket.ts";
import { concat } from "../../net/bytes.ts";
import type { Call, Outcome } from "./calls.ts";
import { type Exchange, OwnSocket } from "./own_socket.ts";
import { findDifference, type OwnWorld } from "./own_world.ts";
import {
  type CallRequest,
  decodeRequest,
  encodeMessage,
  sizeOfRequest,
} from "./protocol.ts";
import type { Connection } from "./unix_server.ts";

/** Longest request, in bytes. */
const MAX_REQUEST = 16 * 1024 * 1024;

/** What the daemon runs for a program that is not a plugin. */
export interface Translation
  extends Pick<Call, "plugin" | "env" | "stdin" | "onStderr"> {
  /**
   * Converts the outcome to what the program prints; or says why the caller must
   * run the call all the same. Never throws: the caller would do so.
   */
  readonly answer: (outcome: Ran) => Promise<Outcome>;
}

type Ran = Exclude<Outcome, { readonly notMine: string }>;

/** Options of a {@linkcode CallSocket}. */
export interface CallSocketOptions {
  /** Finds plugins by type. */
  readonly lookup: PluginLookup;
  /**
   * Translates calls of programs that are not plugins. Returns undefined for all
   * others, and text if the caller must run the call itself.
   */
  readonly translate?:
    | ((request: CallRequest) => Promise<Translation | string | undefined>)
    | undefined;
  /** Runs a call. */
  readonly run: (call: Call) => Promise<Outcome>;
  /** What a caller must have in common with this process. */
  readonly world: OwnWorld;
  readonly log: Pick<Log, "warn" | "info">;
  /** Called for each call that its caller must run itself. */
  readonly onNotMine: (why: string) => void;
  /** See {@linkcode MAX_REQUEST}. */
  readonly maxRequest?: number;
  /** Least time for a request to arrive, in ms; 10 s by default. */
  readonly patienceMs?: number;
}

/** Serves calls. */
export class CallSocket extends OwnSocket {
  /** Creates it; `listen()` opens a socket. */
  constructor(options: CallSocketOptions) {
    super({
      what: "a call",
      log: options.log,
      patienceMs: options.patienceMs,
      begin: (connection, onEnded) =>
        new Conversation(connection, options, onEnded),
    });
  }
}

/** One connection: a request, and its answer. */
class Conversation implements Exchange {
  readonly #connection: Connection;
  readonly #options: CallSocketOptions;
  readonly #onEnded: () => void;
  readonly #gone = new AbortController();
  #chunks: Uint8Array<ArrayBuffer>[] | undefined = [];
  #length = 0;
  /** Of the request; undefined until that is known. */
  #size: number | undefined;

  constructor(
    connection: Connection,
    options: CallSocketOptions,
    onEnded: () => void,
  ) {
    this.#connection = connection;
    this.#options = options;
    this.#onEnded = onEnded;
  }

  onData(bytes: Uint8Array<ArrayBuffer>): void {
    if (this.#chunks === undefined) return; // after the request
    this.#chunks.push(bytes.slice());
    this.#length += bytes.length;
    const { maxRequest = MAX_REQUEST } = this.#options;
    const expected = this.#findSize();
    if (Math.max(this.#length, expected ?? 0) > maxRequest) {
      return this.#refuse("the request is too long");
    }
    if (expected === undefined || this.#length < expected) return;
    const request = concat(this.#chunks);
    this.#chunks = undefined;
    this.#start(request);
  }

  /** @returns Undefined until there is enough of a request to know; 0 for what is none */
  #findSize(): number | undefined {
    if (this.#size !== undefined) return this.#size;
    try {
      return this.#size = sizeOfRequest(concat(this.#chunks ?? []));
    } catch {
      return this.#size = 0;
    }
  }

  onGone(): void {
    this.#gone.abort(new Error("the caller is gone"));
    this.#onEnded();
  }

  /** Ends the conversation unless the request has arrived. */
  hurry(): void {
    if (this.#chunks !== undefined) this.#refuse("the request did not arrive");
  }

  async #start(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    try {
      const request = decodeRequest(bytes);
      const difference = this.#findDifference(request);
      if (difference !== undefined) return this.#refuse(difference);
      const work = await this.#findWork(request);
      if (typeof work === "string") this.#refuse(work);
      else await this.#run(request, work);
    } catch (error) {
      const { log } = this.#options;
      log.warn("Cannot read a request", { error: describeError(error) });
      this.#refuse("the request is malformed");
    }
  }

  #findDifference(request: CallRequest): string | undefined {
    const { peer } = this.#connection;
    if (peer.uid !== Deno.uid()) return "another user";
    return findDifference(this.#options.world, request);
  }

  async #findWork(request: CallRequest): Promise<Translation | string> {
    const { lookup, translate } = this.#options;
    const { name, env, stdin } = request;
    const plugin = lookup(name);
    if (plugin === undefined) {
      return await translate?.(request) ?? "there is no such plugin";
    }
    return {
      plugin: await plugin,
      env,
      stdin,
      onStderr: (stderr) => this.#connection.send(encodeMessage({ stderr })),
      answer: (outcome) => Promise.resolve(outcome),
    };
  }

  async #run(
    { exe }: CallRequest,
    { answer, ...work }: Translation,
  ): Promise<void> {
    const outcome = await this.#options.run({
      ...work,
      exe,
      signal: this.#gone.signal,
      look: () => this.#connection.look(),
      from: describePeer(this.#connection.peer),
    });
    if ("notMine" in outcome) return this.#refuse(outcome.notMine);
    const answered = await answer(outcome);
    if ("notMine" in answered) return this.#refuse(answered.notMine);
    const { stdout, exitCode } = answered;
    this.#end({ stdout, exitCode });
  }

  #refuse(why: string): void {
    this.#options.onNotMine(why);
    this.#end({ notMine: why });
  }

  #end(message: Parameters<typeof encodeMessage>[0]): void {
    this.#chunks = undefined;
    this.#connection.send(encodeMessage(message));
    this.#connection.end();
    this.#onEnded();
  }
}

function describePeer({ pid, uid }: Peer): string {
  return `process ${pid} of user ${uid}`;
}
