/**
 * A server on a unix socket that identifies its callers.
 *
 * @module
 */

import { deadline } from "../deadline.ts";
import { EPOLLIN, EPOLLOUT } from "../../ffi/epoll.ts";
import { isErrno, SyscallError } from "../../ffi/errno.ts";
import type { Fd } from "../../ffi/file/fd.ts";
import {
  type AcceptedStream,
  type Peer,
  UnixListener,
} from "../../ffi/socket/unix_socket.ts";
import { Events } from "./events.ts";

/** Pause after accept4(2) failed, for example with EMFILE, in ms. */
const ACCEPT_PAUSE_MS = 100;

/** The most bytes that wait for a peer that does not read. */
const MAX_UNSENT = 16 * 1024 * 1024;

/** The most bytes that are received in a row from a peer that does not stop sending. */
const MAX_POLL_BYTES = 16 * 1024 * 1024;

/** Receives the events of a connection. */
export interface ConnectionHandler {
  /** Receives bytes, which are valid until it returns. */
  onData(bytes: Uint8Array<ArrayBuffer>): void;
  /** Called once if the peer closes its side; the connection is then closed. */
  onGone(): void;
}

/** A connection to a {@linkcode UnixServer}. */
export class ServerConnection {
  readonly #stream: AcceptedStream;
  readonly #events: Events;
  readonly #onFailed: (error: unknown) => void;
  readonly #unsent: Uint8Array<ArrayBuffer>[] = [];
  #unsentBytes = 0;
  /** Whether to wait for an event until the peer can receive more. */
  #isBlocked = false;
  #handler: ConnectionHandler | undefined;
  #isEnding = false;
  #isClosed = false;
  #isReleased = false;

  /**
   * Takes ownership of a stream.
   *
   * @param onFailed Receives the errors of {@linkcode fail}
   */
  constructor(
    stream: AcceptedStream,
    events: Events,
    onFailed: (error: unknown) => void,
  ) {
    using stack = new DisposableStack();
    this.#stream = stack.use(stream);
    this.#events = events;
    this.#onFailed = onFailed;
    events.add(stream.fd, (happened) => this.#onEvents(happened));
    stack.move();
  }

  /** The process that connected. */
  get peer(): Peer {
    return this.#stream.peer;
  }

  /** See {@linkcode AcceptedStream.openPeerProcess}. */
  openPeerProcess(): Fd | undefined {
    return this.#stream.openPeerProcess();
  }

  /** Sets the receiver; must be called immediately. */
  handle(handler: ConnectionHandler): void {
    this.#handler = handler;
  }

  /**
   * Sends bytes, now or when the peer can receive them; none if the connection is
   * closed.
   *
   * @returns Whether the peer can already receive all of them
   */
  send(bytes: Uint8Array<ArrayBuffer>): boolean {
    if (this.#isClosed || this.#isEnding) return false;
    if (bytes.length === 0) return true;
    this.#unsent.push(bytes);
    this.#unsentBytes += bytes.length;
    if (this.#unsentBytes > MAX_UNSENT) this.#abandon();
    else if (this.#unsent.length === 1) this.#flush();
    return !this.#isClosed && this.#unsent.length === 0;
  }

  /**
   * Receives the bytes that have arrived, or the end of the stream, without waiting
   * for the next event. When this returns, the handler has been notified of a
   * disconnected peer.
   */
  poll(): void {
    try {
      for (let left = MAX_POLL_BYTES; left > 0 && !this.#isClosed;) {
        const length = this.#receive();
        if (length === undefined) return;
        left -= length;
      }
    } catch (error) {
      this.fail(error);
    }
  }

  /** Closes the connection when all bytes are sent. */
  end(): void {
    this.#isEnding = true;
    if (this.#unsent.length === 0) this.close();
  }

  /** Closes the connection immediately. A second call does nothing. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    // The last descriptor is closed when an event occurs, which ends the wait for
    // events.
    if (this.#events.size === 1) this.#stream.shutDown();
    else this.#release();
  }

  #release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#events.remove(this.#stream.fd);
    this.#stream[Symbol.dispose]();
  }

  #onEvents(happened: number): void {
    try {
      if (happened & EPOLLOUT) this.#flush();
      // A hang-up also ends receive().
      if (!this.#isClosed && happened & ~EPOLLOUT) this.#receive();
    } catch (error) {
      this.fail(error);
    }
    if (this.#isClosed) this.#release();
  }

  /** @returns The number of bytes; undefined if none have arrived */
  #receive(): number | undefined {
    const bytes = this.#stream.receive();
    if (bytes === undefined) return undefined;
    const { length } = bytes;
    if (length > 0) this.#handler?.onData(bytes);
    else this.#abandon();
    return length;
  }

  #flush(): void {
    if (this.#isClosed) return;
    const { fd } = this.#stream;
    try {
      for (;;) {
        const [next] = this.#unsent;
        if (next === undefined) break;
        const sent = this.#stream.send(next);
        this.#unsentBytes -= sent;
        if (sent < next.length) {
          this.#unsent[0] = next.subarray(sent);
          this.#isBlocked = true;
          return this.#events.change(fd, EPOLLIN | EPOLLOUT);
        }
        this.#unsent.shift();
      }
    } catch (error) {
      return this.fail(error);
    }
    if (this.#isEnding) return this.close();
    if (this.#isBlocked) this.#events.change(fd, EPOLLIN);
    this.#isBlocked = false;
  }

  #abandon(): void {
    if (this.#isClosed) return;
    this.close();
    this.#handler?.onGone();
  }

  /**
   * Closes the connection because of an error, and reports the error unless the peer
   * has disconnected.
   */
  fail(error: unknown): void {
    if (!isErrno(error, "ECONNRESET", "EPIPE")) this.#onFailed(error);
    this.#abandon();
  }
}

/** Options of a {@linkcode UnixServer}. */
export interface UnixServerOptions {
  /** A path at which no file exists, or a listening socket. */
  readonly socket: string | Fd;
  /** Runs when the socket's file exists and no process can connect yet. */
  readonly onBound?: (path: string) => void;
  /** Receives a new connection. */
  readonly onConnection: (connection: ServerConnection) => void;
  /**
   * Receives the error of accept4(2), such as EMFILE. Returns whether it has made
   * room, so that accept4(2) is repeated immediately.
   */
  readonly onRefused: (error: unknown) => boolean;
  /**
   * Receives the error because of which a connection was closed, such as a handler's
   * error.
   */
  readonly onFailed: (error: unknown) => void;
}

/** A listening socket, until {@linkcode close}. */
export class UnixServer {
  readonly #options: UnixServerOptions;
  /**
   * Its events. Callers can add descriptors, which they must remove before it closes.
   */
  readonly events: Events;
  readonly #listener: UnixListener;
  #isClosing = false;
  /** Resolves when the socket and all connections are closed. */
  readonly closed: Promise<void>;

  /**
   * Listens.
   *
   * @throws {SyscallError} EADDRINUSE, ENOENT, EACCES
   * @throws {RangeError} If the path is too long
   */
  constructor(options: UnixServerOptions) {
    this.#options = options;
    using stack = new DisposableStack();
    this.events = stack.use(new Events());
    this.#listener = stack.use(
      new UnixListener(options.socket, options.onBound),
    );
    this.events.add(this.#listener.fd, () => this.#onCaller());
    this.closed = this.#run(stack.move());
  }

  async #run(stack: DisposableStack): Promise<void> {
    using _all = stack;
    while (this.events.size > 0) await this.events.handle();
  }

  #onCaller(): void {
    if (this.#isClosing) this.events.remove(this.#listener.fd);
    else this.#accept();
  }

  #accept(): void {
    const { onConnection, onRefused, onFailed } = this.#options;
    for (;;) {
      let connection: ServerConnection;
      try {
        const stream = this.#listener.accept();
        if (stream === undefined) return;
        connection = new ServerConnection(stream, this.events, onFailed);
      } catch (error) {
        if (!(error instanceof SyscallError)) throw error;
        if (!onRefused(error)) return this.#pause();
        continue;
      }
      try {
        onConnection(connection);
      } catch (error) {
        connection.fail(error);
      }
    }
  }

  /** Otherwise the waiting connection would be reported again immediately. */
  #pause(): void {
    this.events.change(this.#listener.fd, 0);
    deadline(ACCEPT_PAUSE_MS).addEventListener("abort", () => {
      if (!this.#isClosing) this.events.change(this.#listener.fd, EPOLLIN);
    });
  }

  /** Accepts the waiting connections, without waiting for the next event. */
  poll(): void {
    if (!this.#isClosing) this.#accept();
  }

  /**
   * Accepts the waiting connections, and then stops listening. Connections stay open
   * until they end.
   */
  close(): void {
    if (this.#isClosing) return;
    this.#accept();
    this.#isClosing = true;
    this.#listener.shutDown();
  }
}
