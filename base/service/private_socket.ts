/**
 * A listening socket for root and this process's user.
 *
 * @module
 */

import { deadline, JoinedSignal, waitUntil } from "../deadline.ts";
import { describeError } from "../error.ts";
import type { Log } from "../log/log.ts";
import { SyscallError } from "../../ffi/errno.ts";
import type { Fd } from "../../ffi/file/fd.ts";
import { Admission, type Admitted, type RefusalReason } from "./admission.ts";
import {
  type ConnectionHandler,
  type ServerConnection,
  UnixServer,
} from "./unix_server.ts";

/** The minimum time that a request has to arrive, in ms. */
const REQUEST_TIMEOUT_MS = 10_000;
/** Time limit for pending answers on closing, in ms. */
const GRACE_MS = 1000;

/** A connection with a single request, and its answer. */
export interface RequestExchange extends ConnectionHandler, Admitted {}

/** Options of an {@linkcode PrivateSocket}. */
export interface PrivateSocketOptions {
  /** The name of a request in messages, such as "a call". */
  readonly what: string;
  readonly log: Pick<Log, "warn">;
  /** See {@linkcode REQUEST_TIMEOUT_MS}. */
  readonly requestTimeoutMs?: number | undefined;
  /** The limits of connections, shared with other sockets; separate if undefined. */
  readonly admission?: Admission | undefined;
  /** Starts an exchange, which calls `onEnded` when it ends. */
  readonly begin: (
    connection: ServerConnection,
    onEnded: () => void,
  ) => RequestExchange;
}

/** Serves callers of root and this user, and disconnects all other callers. */
export class PrivateSocket {
  readonly #options: PrivateSocketOptions;
  readonly #admission: Admission;
  readonly #connections = new Map<ServerConnection, RequestExchange>();
  readonly #servers = new Set<UnixServer>();
  #onEmpty: (() => void) | undefined;
  #isArmed = false;

  /** Creates it; {@linkcode listen} opens a socket. */
  constructor(options: PrivateSocketOptions) {
    this.#options = options;
    this.#admission = options.admission ?? new Admission();
  }

  /** How many connections are open. */
  get connections(): number {
    return this.#connections.size;
  }

  /**
   * Listens on a socket for this user only.
   *
   * @param socket Its path, or a listening socket
   *
   * @throws {SyscallError} From socket(2), bind(2) and listen(2)
   */
  listen(socket: string | Fd): UnixServer {
    const { what, log } = this.#options;
    const server = new UnixServer({
      socket,
      onBound: (path) => Deno.chmodSync(path, 0o600),
      onConnection: (connection) => this.#serve(connection),
      onRefused: (error) => {
        log.warn(`Cannot accept ${what}`, { error: describeError(error) });
        return isForWantOfRoom(error) && this.#admission.makeRoom();
      },
      onFailed: (error) =>
        log.warn(`Cannot serve ${what}`, { error: describeError(error) }),
    });
    this.#servers.add(server);
    server.closed.then(() => this.#servers.delete(server));
    return server;
  }

  /** Receives the bytes that callers have sent, without waiting for the next event. */
  poll(): void {
    for (const server of this.#servers) server.poll();
    for (const [connection, { isBegun }] of [...this.#connections]) {
      if (!isBegun) connection.poll();
    }
  }

  /** Ends all connections, after sending pending answers. */
  async close(): Promise<void> {
    this.#refuseIncomplete([...this.#connections], "the daemon ends");
    if (this.#connections.size > 0) {
      const { promise: empty, resolve } = Promise.withResolvers<void>();
      this.#onEmpty = resolve;
      using limit = new JoinedSignal(GRACE_MS);
      await waitUntil(empty, limit.signal);
    }
    for (const connection of this.#connections.keys()) connection.close();
  }

  #serve(connection: ServerConnection): void {
    const { log, begin } = this.#options;
    const { peer } = connection;
    if (peer.uid !== 0 && peer.uid !== Deno.uid()) {
      log.warn("Refused a caller that belongs to a different user", {
        ...peer,
      });
      return connection.close();
    }
    const exchange = begin(connection, () => {
      this.#connections.delete(connection);
      this.#admission.leave(exchange);
      if (this.#connections.size === 0) this.#onEmpty?.();
    });
    this.#connections.set(connection, exchange);
    connection.handle({
      onData: (bytes): void => {
        exchange.onData(bytes);
        this.#admission.count(exchange);
      },
      onGone: (): void => exchange.onGone(),
    });
    this.#armTimeout();
    this.#admission.enter(exchange, peer.pid);
    // Most requests have already arrived, which saves the wait for an event.
    connection.poll();
  }

  /**
   * Refuses incomplete requests, after receiving the bytes that have arrived:
   * otherwise, closing would reset the connection.
   */
  #refuseIncomplete(
    connections: readonly (readonly [ServerConnection, RequestExchange])[],
    reason: RefusalReason,
  ): void {
    for (const [connection, exchange] of connections) {
      if (!exchange.isBegun) connection.poll();
      if (!exchange.isBegun && this.#connections.has(connection)) {
        exchange.refuse(reason);
      }
    }
  }

  /**
   * Ends exchanges without a request, within twice the time limit. A single timer
   * serves all exchanges: separate timers would wake this process up long after their
   * calls, as would a counted limit. A process that was stopped has not read what
   * arrived during the stop, and starts waiting again.
   */
  #armTimeout(): void {
    if (this.#isArmed) return;
    this.#isArmed = true;
    const { requestTimeoutMs = REQUEST_TIMEOUT_MS } = this.#options;
    const connections = [...this.#connections];
    const startMs = performance.now();
    deadline(requestTimeoutMs).addEventListener("abort", () => {
      this.#isArmed = false;
      const isLate = performance.now() - startMs > 2 * requestTimeoutMs;
      if (!isLate) this.#refuseIncomplete(connections, "request not arrived");
      if (this.#connections.size > 0) this.#armTimeout();
    });
  }
}

/** Source: accept(2). */
function isForWantOfRoom(error: unknown): boolean {
  return error instanceof SyscallError &&
    ["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"].includes(error.errno);
}
