/**
 * The daemon's state over TCP. Another program may have the port: calls go on without
 * it, and the daemon tries again until the port is free.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";
import { describeError } from "../../base/error.ts";
import type { Log } from "../../base/log/log.ts";

/** Time between two attempts to listen, in ms. */
const RETRY_MS = 5000;

/** Where a TCP socket listens. */
export interface StateAddress {
  readonly hostname: string;
  readonly port: number;
}

/** Options of a {@linkcode StateServer}. */
export interface StateServerOptions {
  readonly address: StateAddress;
  readonly respond: (request: Request) => Response | Promise<Response>;
  readonly log: Pick<Log, "warn" | "error" | "info">;
  /** See {@linkcode RETRY_MS}. */
  readonly retryMs?: number;
}

/** Serves the state from its creation to its disposal. */
export class StateServer implements AsyncDisposable {
  readonly #options: StateServerOptions;
  readonly #end = new AbortController();
  readonly #running: Promise<void>;
  /** Why it does not listen; undefined if it does. */
  #problem: string | undefined;

  /** Starts listening. */
  constructor(options: StateServerOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  /** Where it listens, and why it does not. */
  describe(): { readonly address: string; readonly problem?: string } {
    const { hostname, port } = this.#options.address;
    const host = hostname.includes(":") ? `[${hostname}]` : hostname;
    return {
      address: `${host}:${port}`,
      ...this.#problem !== undefined && { problem: this.#problem },
    };
  }

  /** Stops listening. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { log, retryMs = RETRY_MS } = this.#options;
    const { signal } = this.#end;
    while (!signal.aborted) {
      try {
        await using server = this.#listen();
        if (this.#problem !== undefined) log.info("serving", this.describe());
        this.#problem = undefined;
        await server.finished;
      } catch (error) {
        const problem = describeError(error);
        const isNew = problem !== this.#problem;
        this.#problem = problem;
        if (isNew) log.error("Cannot serve the metrics", this.describe());
        await pause(retryMs, signal);
      }
    }
  }

  #listen(): Deno.HttpServer {
    const { address, respond, log } = this.#options;
    return Deno.serve({
      ...address,
      signal: this.#end.signal,
      onListen(): void {},
      onError(error: unknown): Response {
        log.warn("Cannot send an answer", { error: describeError(error) });
        return new Response(null, { status: 500 });
      },
    }, respond);
  }
}
