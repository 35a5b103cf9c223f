/**
 * HTTPS on our own connections, which send without delay.
 *
 * @module
 */

import type { Access } from "./access.ts";
import { type AnswerHead, encodeHttpRequest } from "./http1.ts";
import { ConnectError } from "./no_answer.ts";
import { TlsConnection } from "./tls_connection.ts";
import type { HttpAnswer, HttpRequest, Transport } from "./transport.ts";

/** Maximum number of idle connections. */
const MAX_IDLE = 8;

/**
 * A transport without proxy and without client certificate.
 *
 * Deno's `fetch` leaves Nagle's algorithm on. On a resumed TLS session, which
 * every connection but the first has, the request then waits for the server to
 * acknowledge the end of the handshake. A Go server sends nothing at that
 * point, which costs 40 ms. The first `fetch` of a process is also slow.
 */
export class TlsTransport implements Transport {
  readonly #caCerts: string[];
  readonly #idle = new Set<TlsConnection>();
  readonly #open = new Set<TlsConnection>();

  /**
   * Creates a transport without connecting.
   *
   * @throws {Error} If certificates are invalid
   */
  constructor({ caCerts }: Pick<Access, "caCerts">) {
    this.#caCerts = [...caCerts];
    // Fails here instead of with each connection.
    Deno.createHttpClient({ caCerts: this.#caCerts })[Symbol.dispose]();
  }

  /** Sends a request on an idle or a new connection. */
  async send(request: HttpRequest, signal: AbortSignal): Promise<HttpAnswer> {
    signal.throwIfAborted();
    const url = new URL(request.url);
    const { host, pathname, search } = url;
    const path = pathname + search;
    const bytes = encodeHttpRequest({ ...request, host, path });
    const connection = this.#takeIdle() ?? await this.#connect(url, signal);
    const endWatch = connection.closeOn(signal);
    try {
      const head = await connection.ask(bytes);
      const finish = (): void => {
        endWatch();
        this.#finish(connection, head);
      };
      if (head.hasBody) return { ...head, body: bodyOf(connection, finish) };
      finish();
      return { ...head, body: null };
    } catch (error) {
      endWatch();
      this.#close(connection);
      throw error;
    }
  }

  /**
   * Prefers the last used connection, which is least likely to be closed by
   * now.
   */
  #takeIdle(): TlsConnection | undefined {
    const connection = [...this.#idle].findLast((idle) => idle.tryTake());
    if (connection !== undefined) this.#idle.delete(connection);
    return connection;
  }

  async #connect(
    { hostname, port }: URL,
    signal: AbortSignal,
  ): Promise<TlsConnection> {
    const name = hostname.replace(/^\[|\]$/g, "");
    try {
      const connection = await TlsConnection.open(
        { hostname: name, port: Number(port || 443), caCerts: this.#caCerts },
        signal,
      );
      this.#open.add(connection);
      return connection;
    } catch (error) {
      throw new ConnectError(error);
    }
  }

  #finish(connection: TlsConnection, { staysOpen }: AnswerHead): void {
    for (const idle of this.#idle) if (idle.isOver) this.#close(idle);
    const isKept = staysOpen && !connection.isOver &&
      this.#open.has(connection) && this.#idle.size < MAX_IDLE;
    if (!isKept) return this.#close(connection);
    connection.release();
    this.#idle.add(connection);
  }

  #close(connection: TlsConnection): void {
    this.#idle.delete(connection);
    this.#open.delete(connection);
    connection[Symbol.dispose]();
  }

  /** Closes all connections. */
  [Symbol.dispose](): void {
    for (const connection of this.#open) this.#close(connection);
  }
}

/** Reads a body on demand. Cancelling it closes the connection. */
function bodyOf(
  connection: TlsConnection,
  finish: () => void,
): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller): Promise<void> {
      try {
        const piece = await connection.reader.readPiece();
        if (piece !== undefined) return controller.enqueue(piece);
        finish();
        controller.close();
      } catch (error) {
        connection[Symbol.dispose]();
        finish();
        throw new Error("error reading a body", { cause: error });
      }
    },
    cancel(): void {
      connection[Symbol.dispose]();
      finish();
    },
  }, { highWaterMark: 0 });
}
