/**
 * A TLS connection that carries one request at a time.
 *
 * @module
 */

import { type AnswerHead, AnswerReader } from "./http1.ts";

/** Size of a connection's read buffer, in bytes. */
const BUFFER_BYTES = 64 * 2 ** 10;

/** A server, and the authorities that may sign its certificate. */
export interface Peer {
  readonly hostname: string;
  readonly port: number;
  readonly caCerts: string[];
}

/** A connection with at most one request at a time. */
export class TlsConnection implements Disposable {
  readonly reader: AnswerReader;
  readonly #tls: Deno.TlsConn;
  readonly #buffer = new Uint8Array(BUFFER_BYTES);
  #ahead: Promise<number | null> | undefined;
  #isSending = false;
  #isIdle = false;
  #isOver = false;
  #isClosed = false;

  private constructor(tls: Deno.TlsConn) {
    this.#tls = tls;
    this.reader = new AnswerReader(() => this.#read());
  }

  /**
   * Connects, and checks the server's certificate.
   *
   * @throws {Error} If the server is unreachable or untrusted
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

  /**
   * Whether it cannot carry another request after an answer: it is closed; the
   * server answered early and may have stopped reading; or bytes follow the
   * answer, which would be mistaken for the next one.
   *
   * Source: RFC 9112 sections 6.3 and 9.5.
   */
  get isOver(): boolean {
    return this.#isOver || this.#isSending || this.reader.hasUnread;
  }

  /** Takes the connection for a request. @returns Whether it is usable */
  tryTake(): boolean {
    this.#isIdle = false;
    this.#tls.ref();
    return !this.isOver;
  }

  /**
   * Makes the connection available to the next request. Anything that the
   * server sends before that ends the connection, as soon as the event loop
   * reads it.
   */
  release(): void {
    this.#isIdle = true;
    // An idle connection must not keep the process alive.
    this.#tls.unref();
    this.#ahead = this.#tls.read(this.#buffer);
    const end = (): void => {
      if (this.#isIdle) this.#isOver = true;
    };
    this.#ahead.then(end, end);
  }

  /**
   * Closes the connection on the signal.
   *
   * @returns Stops listening to the signal
   */
  closeOn(signal: AbortSignal): () => void {
    const close = (): void => this[Symbol.dispose]();
    signal.addEventListener("abort", close);
    return () => signal.removeEventListener("abort", close);
  }

  /**
   * Sends a request, and reads the head of the answer, possibly before
   * everything is sent: a server that refuses a request early may stop reading.
   *
   * @throws {Error} If there is no answer
   */
  async ask(bytes: Uint8Array): Promise<AnswerHead> {
    // If this fails, reading fails too, or there is already an answer.
    this.#write(bytes).catch(() => {});
    return await this.reader.readHead();
  }

  async #write(bytes: Uint8Array): Promise<void> {
    this.#isSending = true;
    for (let written = 0; written < bytes.length;) {
      written += await this.#tls.write(bytes.subarray(written));
    }
    this.#isSending = false;
  }

  async #read(): Promise<Uint8Array | undefined> {
    const reading = this.#ahead ?? this.#tls.read(this.#buffer);
    this.#ahead = undefined;
    const count = await reading;
    return count === null ? undefined : this.#buffer.subarray(0, count);
  }

  /** Closes the connection; reads and writes then fail. */
  [Symbol.dispose](): void {
    if (this.#isClosed) return;
    this.#isOver = this.#isClosed = true;
    this.#tls.close();
  }
}
