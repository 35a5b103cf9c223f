/**
 * Unix sockets that identify the peer, and datagrams. Deno's own sockets support
 * neither. Nothing here waits.
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import { isErrno } from "../errno.ts";
import { Fd } from "../file/fd.ts";
import * as libc from "../libc.ts";

/** Source: include/linux/socket.h, include/linux/net.h. */
const AF_UNIX = 1,
  SOCK_STREAM = 1,
  SOCK_DGRAM = 2,
  SOCK_NONBLOCK = 0o4000,
  SOCK_CLOEXEC = 0o2000000,
  SHUT_RDWR = 2;
/** Source: include/uapi/asm-generic/socket.h. */
const SOL_SOCKET = 1, SO_PEERCRED = 17, SO_PEERPIDFD = 77;

/** Connections that can wait to be accepted. */
const BACKLOG = 1024;

/** The process at the other end, as it was when it connected. */
export interface Peer {
  readonly pid: number;
  readonly uid: number;
  readonly gid: number;
}

/** A listening socket. */
export class UnixListener implements Disposable {
  readonly #fd: Fd;

  /**
   * Listens.
   *
   * @param socket A path at which no file exists, or a listening socket, of which
   * this takes ownership
   * @param onBound Runs when the file exists and no process can connect yet
   * @throws {SyscallError} EADDRINUSE, ENOENT, EACCES
   * @throws {RangeError} If the path is too long
   */
  constructor(
    socket: string | Fd,
    onBound: (path: string) => void = () => {},
  ) {
    if (socket instanceof Fd) {
      this.#fd = socket;
      libc.setNonBlocking(this.fd);
      libc.setCloseOnExec(this.fd, true);
      return;
    }
    using stack = new DisposableStack();
    const type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    this.#fd = stack.use(new Fd(libc.socket(AF_UNIX, type, 0)));
    libc.bind(this.fd, encodeAddress(socket));
    onBound(socket);
    libc.listen(this.fd, BACKLOG);
    stack.move();
  }

  /** The descriptor's number. */
  get fd(): number {
    return this.#fd.number;
  }

  /**
   * Accepts a connection.
   *
   * @returns Undefined if no connection is waiting
   * @throws {SyscallError} EMFILE, ENFILE; EINVAL after {@linkcode shutDown}
   */
  accept(): AcceptedStream | undefined {
    const fd = libc.accept(this.fd, SOCK_NONBLOCK | SOCK_CLOEXEC);
    return fd === undefined ? undefined : new AcceptedStream(new Fd(fd));
  }

  /** Refuses further connections, and wakes up all waiting tasks. */
  shutDown(): void {
    libc.shutdown(this.fd, SHUT_RDWR);
  }

  /** Closes the socket. Its file stays. */
  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
  }
}

/** The buffer into which all streams are read. */
const received = new Uint8Array(64 * 1024);

/** An accepted connection. */
export class AcceptedStream implements Disposable {
  readonly #fd: Fd;
  /** The process at the other end. */
  readonly peer: Peer;

  /** Takes ownership of a connected, non-blocking socket. */
  constructor(fd: Fd) {
    using stack = new DisposableStack();
    this.#fd = stack.use(fd);
    this.peer = readPeer(fd.number);
    stack.move();
  }

  /** The descriptor's number. */
  get fd(): number {
    return this.#fd.number;
  }

  /**
   * Receives the bytes that have arrived.
   *
   * @returns Bytes that are valid until the next call for any stream; empty at the
   * end of the stream; undefined if none have arrived
   * @throws {SyscallError} ECONNRESET
   */
  receive(): Bytes | undefined {
    const length = libc.recvNow(this.fd, received);
    return length === undefined ? undefined : received.subarray(0, length);
  }

  /**
   * Sends as many bytes as fit into the socket's buffer.
   *
   * @returns How many bytes were sent
   * @throws {SyscallError} EPIPE, ECONNRESET
   */
  send(bytes: Bytes): number {
    return libc.sendNow(this.fd, bytes) ?? 0;
  }

  /**
   * Opens a descriptor of the process that connected, pidfd_open(2). It refers to
   * that process only, never to a later process with the same ID.
   *
   * @returns Undefined before Linux 6.5
   * @throws {SyscallError} ESRCH if the process has ended; EMFILE
   */
  openPeerProcess(): Fd | undefined {
    const words = new Int32Array(1);
    const value = new Uint8Array(words.buffer);
    try {
      const option = { level: SOL_SOCKET, name: SO_PEERPIDFD, value };
      libc.getSocketOption(this.fd, option);
    } catch (error) {
      if (isErrno(error, "ENOPROTOOPT")) return undefined;
      throw error;
    }
    const [fd = -1] = words;
    return new Fd(fd);
  }

  /** Ends the connection. The peer still receives the bytes that were sent. */
  shutDown(): void {
    libc.shutdown(this.fd, SHUT_RDWR);
  }

  /** Closes the connection. A second call does nothing. */
  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
  }
}

/** Source: include/linux/socket.h `struct ucred`. */
function readPeer(fd: number): Peer {
  const words = new Uint32Array(3);
  const value = new Uint8Array(words.buffer);
  libc.getSocketOption(fd, { level: SOL_SOCKET, name: SO_PEERCRED, value });
  const [pid = 0, uid = 0, gid = 0] = words;
  return { pid, uid, gid };
}

/**
 * Returns the process that listens on a socket; undefined if none does. To that
 * process, this looks like a connection that ends immediately.
 *
 * @throws {SyscallError} EACCES; EAGAIN if its backlog is full
 */
export function findListener(path: string): Peer | undefined {
  const type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  using fd = new Fd(libc.socket(AF_UNIX, type, 0));
  try {
    libc.connect(fd.number, encodeAddress(path));
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR", "ECONNREFUSED")) return undefined;
    throw error;
  }
  return readPeer(fd.number);
}

/**
 * Sends a datagram.
 *
 * @param path Path of the receiver's socket, or `@` and an abstract name
 * @throws {SyscallError} ENOENT, ECONNREFUSED, EAGAIN if its queue is full
 */
export function sendDatagram(path: string, data: string | Bytes): void {
  const type = SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  using fd = new Fd(libc.socket(AF_UNIX, type, 0));
  libc.connect(fd.number, encodeAddress(path));
  const bytes = typeof data === "string"
    ? new TextEncoder().encode(data)
    : data;
  libc.send(fd.number, bytes, 0);
}

/** The longest path, without the final NUL. Source: unix(7). */
const PATH_BYTES = 107;

/**
 * Encodes a `struct sockaddr_un`.
 *
 * @param path A leading `@` selects the abstract namespace
 * @throws {RangeError} If the path is too long
 */
function encodeAddress(path: string): Bytes {
  const isAbstract = path.startsWith("@");
  const name = new TextEncoder().encode(
    isAbstract ? `\0${path.slice(1)}` : `${path}\0`,
  );
  if (name.length > PATH_BYTES + 1) {
    throw new RangeError(`The socket's path is too long: "${path}"`);
  }
  const family = new Uint8Array(new Uint16Array([AF_UNIX]).buffer);
  const address = new Uint8Array(family.length + name.length);
  address.set(family);
  address.set(name, family.length);
  return address;
}
