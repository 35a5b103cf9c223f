/**
 * HTTPS on connections of our own, which send at once what they are given.
 *
 * @module
 */

import type { Access } from "./access.ts";
import { type AnswerHead, AnswerReader, encodeHttpRequest } from "./http1.ts";
import { ConnectError } from "./no_answer.ts";
import type { HttpAnswer, HttpRequest, Transport } from "./transport.ts";

/** Memory that a connection reads into, in bytes. */
const BUFFER_BYTES = 64 * 2 ** 10;

/** How many connections wait for the next request. */
const MAX_IDLE = 8;

/**
 * A server that is reached without proxy and without a certificate of ours.
 *
 * Deno's `fetch` leaves Nagle's algorithm on. Where a TLS session is resumed,
 * which is every connection after the first, the request then waits for the
 * server to acknowledge the end of the handshake, to which a server in Go says
 * nothing: 40 ms. Besides, the first `fetch` of a process takes its time.
 */
export class TlsTransport implements Transport {
  readonly #caCerts: string[];
  readonly #idle = new Set<TlsConnection>();
  readonly #open = new Set<TlsConnection>();

  /**
   * Nothing is connected yet.
   *
   * @throws {Error} If certificates are not what they should be
   */
  constructor({ caCerts }: Pick<Access, "caCerts">) {
    this.#caCerts = [...caCerts];
    // Else each connection would fail because of them.
    Deno.createHttpClient({ caCerts: this.#caCerts })[Symbol.dispose]();
  }

  /** Sends a request on a connection on which there is no other one. */
  async send(request: HttpRequest, signal: AbortSignal): Promise<HttpAnswer> {
    signal.throwIfAborted();
    const bytes = encodeHttpRequest(request);
    const connection = this.#takeIdle() ??
      await this.#connect(new URL(request.url), signal);
    const endWatch = connection.closeOn(signal);
    try {
      await connection.write(bytes);
      const head = await connection.reader.readHead();
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

  /** The last one that was used is the least likely to be closed by now. */
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

/** Reads a body as it is asked for. Whoever leaves early ends the connection. */
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

/** Where to, and whom to believe that it is there. */
interface Peer {
  readonly hostname: string;
  readonly port: number;
  readonly caCerts: string[];
}

/** A connection, on which there is one request at a time. */
class TlsConnection implements Disposable {
  readonly reader: AnswerReader;
  readonly #tls: Deno.TlsConn;
  readonly #buffer = new Uint8Array(BUFFER_BYTES);
  #ahead: Promise<number | null> | undefined;
  #isIdle = false;
  #isOver = false;
  #isClosed = false;

  private constructor(tls: Deno.TlsConn) {
    this.#tls = tls;
    this.reader = new AnswerReader(() => this.#read());
  }

  /**
   * Connects.
   *
   * @throws {Error} If nobody is there, or somebody else
   */
  static async open(
    { hostname, port, caCerts }: Peer,
    signal: AbortSignal,
  ): Promise<TlsConnection> {
    const tcp = await Deno.connect({ hostname, port, signal });
    let stage: Disposable = tcp;
    const close = (): void => stage[Symbol.dispose]();
    signal.addEventListener("abort", close);
    try {
      tcp.setNoDelay(true);
      const tls = await Deno.startTls(tcp, { hostname, caCerts });
      stage = tls;
      signal.throwIfAborted();
      await tls.handshake();
      return new TlsConnection(tls);
    } catch (error) {
      if (!signal.aborted) close();
      throw error;
    } finally {
      signal.removeEventListener("abort", close);
    }
  }

  /** Whether it is of no use any more. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Takes it for a request. @returns Whether it can be */
  tryTake(): boolean {
    this.#isIdle = false;
    return !this.#isOver;
  }

  /**
   * Leaves it to the next request. What the server says before there is one is
   * its farewell.
   */
  release(): void {
    this.#isIdle = true;
    this.#ahead = this.#tls.read(this.#buffer);
    const end = (): void => {
      if (this.#isIdle) this.#isOver = true;
    };
    this.#ahead.then(end, end);
  }

  /** Closes it with the signal. @returns How to end that */
  closeOn(signal: AbortSignal): () => void {
    const close = (): void => this[Symbol.dispose]();
    signal.addEventListener("abort", close);
    return () => signal.removeEventListener("abort", close);
  }

  /** Sends bytes. */
  async write(bytes: Uint8Array): Promise<void> {
    for (let written = 0; written < bytes.length;) {
      written += await this.#tls.write(bytes.subarray(written));
    }
  }

  async #read(): Promise<Uint8Array | undefined> {
    const reading = this.#ahead ?? this.#tls.read(this.#buffer);
    this.#ahead = undefined;
    const count = await reading;
    return count === null ? undefined : this.#buffer.subarray(0, count);
  }

  /** Closes it; reading and writing then fail. */
  [Symbol.dispose](): void {
    if (this.#isClosed) return;
    this.#isOver = this.#isClosed = true;
    this.#tls.close();
  }
}
