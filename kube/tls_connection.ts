/**
 * A connection with TLS, on which requests come one after the other.
 *
 * @module
 */

import { type AnswerHead, AnswerReader } from "./http1.ts";

/** Memory that a connection reads into, in bytes. */
const BUFFER_BYTES = 64 * 2 ** 10;

/** Where to, and whom to believe that it is there. */
export interface Peer {
  readonly hostname: string;
  readonly port: number;
  readonly caCerts: string[];
}

/** A connection, on which there is one request at a time. */
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

  /**
   * Whether there can be no other request on it, now that an answer is read:
   * because it is closed; because the server, which has answered early, has
   * perhaps stopped to read; or because there is more than the answer, which
   * would be taken for the next one.
   *
   * Source: RFC 9112 sections 6.3 and 9.5.
   */
  get isOver(): boolean {
    return this.#isOver || this.#isSending || this.reader.hasUnread;
  }

  /** Takes it for a request. @returns Whether it can be */
  tryTake(): boolean {
    this.#isIdle = false;
    this.#tls.ref();
    return !this.isOver;
  }

  /**
   * Leaves it to the next request. What the server says before there is one is
   * its farewell; it is heard as soon as the event loop gets to it.
   */
  release(): void {
    this.#isIdle = true;
    // It keeps no process alive.
    this.#tls.unref();
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

  /**
   * Sends a request, and reads the head of the answer, perhaps before all is
   * sent: a server that wants no more of it says so, and may then read nothing.
   *
   * @throws {Error} If there is no answer
   */
  async ask(bytes: Uint8Array): Promise<AnswerHead> {
    // Where this fails there is nothing to read either, or there is an answer.
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

  /** Closes it; reading and writing then fail. */
  [Symbol.dispose](): void {
    if (this.#isClosed) return;
    this.#isOver = this.#isClosed = true;
    this.#tls.close();
  }
}
