/**
 * The daemon's state over TCP. If another program uses the port, calls still run, and the
 * daemon tries again until the port is free.
 *
 * Any process can connect. Unlike `Deno.serve`, the server bounds the number of open
 * connections and their duration.
 *
 * @module
 */

import { pause, waitUntil } from "../../base/deadline.ts";
import { describeError } from "../../base/error.ts";
import type { Log } from "../../base/log/log.ts";
import { Admission, type Admitted } from "../../base/service/admission.ts";
import { HttpExchange, type HttpExchangeOptions } from "./http_socket.ts";

/** Time between two attempts to listen, in ms. */
const RETRY_MS = 5000;

/** Pause after accept(2) failed, such as with EMFILE, in ms. */
const ACCEPT_PAUSE_MS = 100;

/** Least time for a request and its answer, in ms. */
const CONNECTION_MS = 30_000;

/** Where a TCP socket listens. */
export interface StateAddress {
  readonly hostname: string;
  readonly port: number;
}

/** Options of a {@linkcode StateServer}. */
export interface StateServerOptions {
  readonly address: StateAddress;
  readonly respond: (request: Request) => Promise<Response>;
  readonly log: Pick<Log, "warn" | "error" | "info">;
  /** Most connections at the same time. */
  readonly maxConnections: number;
  /** See {@linkcode RETRY_MS}. */
  readonly retryMs?: number;
  /** See {@linkcode CONNECTION_MS}. */
  readonly connectionMs?: number;
}

/** Serves the state from its creation to its disposal. */
export class StateServer implements AsyncDisposable {
  readonly #options: StateServerOptions;
  readonly #admission: Admission;
  readonly #connections = new Set<StateConnection>();
  readonly #end = new AbortController();
  readonly #running: Promise<void>;
  /** Why the server does not listen; undefined if it listens. */
  #problem: string | undefined;

  /** Starts listening. */
  constructor(options: StateServerOptions) {
    this.#options = options;
    const { maxConnections } = options;
    // The process at the other end cannot be identified.
    const maxOfProcess = maxConnections;
    this.#admission = new Admission({ maxConnections, maxOfProcess });
    this.#running = this.#run();
  }

  /** Returns the address, and why the server does not listen there. */
  describe(): { readonly address: string; readonly problem?: string } {
    const { hostname, port } = this.#options.address;
    const host = hostname.includes(":") ? `[${hostname}]` : hostname;
    return {
      address: `${host}:${port}`,
      ...this.#problem !== undefined && { problem: this.#problem },
    };
  }

  /** Stops listening, and resets all connections. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort();
    await this.#running;
    for (const connection of this.#connections) connection.refuse();
  }

  async #run(): Promise<void> {
    await Promise.all([this.#listen(), this.#cutOld()]);
  }

  async #listen(): Promise<void> {
    const { address, log, retryMs = RETRY_MS } = this.#options;
    const { signal } = this.#end;
    while (!signal.aborted) {
      try {
        using listener = Deno.listen(address);
        if (this.#problem !== undefined) log.info("serving", this.describe());
        this.#problem = undefined;
        await this.#accept(listener);
      } catch (error) {
        const problem = describeError(error);
        const isNew = problem !== this.#problem;
        this.#problem = problem;
        if (isNew) log.error("Cannot serve the metrics", this.describe());
        await pause(retryMs, signal);
      }
    }
  }

  /** Accepts connections until the end. */
  async #accept(listener: Deno.TcpListener): Promise<void> {
    const { signal } = this.#end;
    while (!signal.aborted) {
      try {
        const accepted = await waitUntil(listener.accept(), signal);
        if (accepted) this.#serve(accepted);
      } catch (error) {
        const { log } = this.#options;
        log.warn("Cannot accept a request", { error: describeError(error) });
        await pause(ACCEPT_PAUSE_MS, signal);
      }
    }
  }

  async #serve(accepted: Deno.TcpConn): Promise<void> {
    const { respond, log } = this.#options;
    const options = { respond, log, maxBody: 0 };
    using connection = new StateConnection(accepted, options, () => {
      this.#connections.delete(connection);
      this.#admission.leave(connection);
    });
    this.#connections.add(connection);
    this.#admission.enter(connection, 0);
    await connection.run();
  }

  /** Resets connections within twice the time limit. */
  async #cutOld(): Promise<void> {
    const { connectionMs = CONNECTION_MS } = this.#options;
    const { signal } = this.#end;
    while (!signal.aborted) {
      const connections = [...this.#connections];
      await pause(connectionMs, signal);
      for (const connection of connections) connection.refuse();
    }
  }
}

/** A connection: a request, and its answer. */
class StateConnection implements Admitted, Disposable {
  readonly #accepted: Deno.TcpConn;
  readonly #exchange: HttpExchange;
  readonly #onClosed: () => void;
  #sending = Promise.resolve();
  /** Whether the connection only waits until the other end has read the answer. */
  #isAnswered = false;
  /** The head of the request, which is short. */
  readonly bytes = 0;

  constructor(
    accepted: Deno.TcpConn,
    options: HttpExchangeOptions,
    onClosed: () => void,
  ) {
    this.#accepted = accepted;
    this.#onClosed = onClosed;
    const connection = {
      send: (bytes: Uint8Array): void => this.#send(bytes),
      end: (): void => this.#finish(),
      poll: (): void => {},
    };
    this.#exchange = new HttpExchange(connection, options, () => {});
  }

  get isBegun(): boolean {
    return this.#exchange.isBegun && !this.#isAnswered;
  }

  /** Resets the connection without an answer, because the send buffer might be full. */
  refuse(): void {
    this[Symbol.dispose]();
  }

  /** Exchanges request and answer until either end closes the connection. */
  async run(): Promise<void> {
    const buffer = new Uint8Array(4096);
    try {
      for (;;) {
        const length = await this.#accepted.read(buffer);
        if (length === null) break;
        this.#exchange.onData(buffer.subarray(0, length));
      }
    } catch {
      // The connection is closed.
    }
    this.#exchange.onGone();
  }

  #send(bytes: Uint8Array): void {
    this.#sending = this.#sending.then(async () => {
      for (let rest = bytes; rest.length > 0;) {
        rest = rest.subarray(await this.#accepted.write(rest));
      }
    }).catch(() => this[Symbol.dispose]());
  }

  #finish(): void {
    this.#isAnswered = true;
    this.#sending.then(() => this[Symbol.dispose]());
  }

  /** Closes the connection. A second call does nothing. */
  [Symbol.dispose](): void {
    this.#accepted[Symbol.dispose]();
    this.#onClosed();
  }
}
