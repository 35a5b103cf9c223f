/**
 * TCP: a connection from a namespace, and a single request.
 *
 * @module
 */

import { type Bytes, viewOf } from "../../net/bytes.ts";
import type { Ip } from "../../net/ip.ts";
import { Fd } from "../file/fd.ts";
import * as libc from "../libc.ts";
import { encodeAddress, SOCKET_DOMAINS } from "./socket_address.ts";
import type { Sender } from "./udp_socket.ts";
import { isErrno } from "../errno.ts";
import { inNetns, type NetNs } from "../netns.ts";

/** Source: include/linux/net.h, include/linux/socket.h. */
const SOCK_STREAM = 1, SOCK_NONBLOCK = 0o4000, SOCK_CLOEXEC = 0o2000000;
const MSG_NOSIGNAL = 0x4000;

/** Source: include/uapi/asm-generic/socket.h; the same on x86-64 and arm64. */
const SOL_SOCKET = 1, SO_RCVTIMEO = 20, SO_SNDTIMEO = 21;

/** The most bytes of an answer that are read. */
const ANSWER_BYTES = 1024;

/** The destination of a request, and its time limit. */
export interface Destination {
  readonly address: Ip;
  readonly port: number;
  /** The limit for all waits together, in ms. */
  readonly limitMs: number;
}

/**
 * Connects, sends bytes, and waits for the beginning of the answer. It blocks for a
 * bounded time, because Deno's own connections are asynchronous, and a process that
 * exits does not wait for them.
 *
 * @returns Up to a kilobyte of the answer
 * @throws {SyscallError} ECONNREFUSED and other errors of connect(2); EINPROGRESS or
 * EAGAIN if the time limit expires
 */
export function exchange(
  { address, port, limitMs }: Destination,
  request: Bytes,
): Bytes {
  const endMs = performance.now() + limitMs;
  const domain = SOCKET_DOMAINS[address.family];
  using socket = new Fd(libc.socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const fd = socket.number;
  const limit = (name: number): void =>
    libc.setSocketOptionBytes(
      fd,
      {
        level: SOL_SOCKET,
        name,
        value: encodeTime(endMs - performance.now()),
      },
    );
  limit(SO_SNDTIMEO);
  libc.connect(fd, encodeAddress(address, port));
  for (let rest = request; rest.length > 0;) {
    limit(SO_SNDTIMEO);
    rest = rest.subarray(libc.send(fd, rest, MSG_NOSIGNAL));
  }
  limit(SO_RCVTIMEO);
  const answer = new Uint8Array(ANSWER_BYTES);
  return answer.subarray(0, libc.recv(fd, answer, 0));
}

/** Encodes a `struct timeval`. 0 would mean no limit. */
function encodeTime(ms: number): Bytes {
  const microseconds = Math.max(1, Math.round(ms * 1000));
  const bytes = new Uint8Array(16);
  const view = viewOf(bytes);
  view.setBigUint64(0, BigInt(Math.floor(microseconds / 1e6)), true);
  view.setBigUint64(8, BigInt(microseconds % 1e6), true);
  return bytes;
}

/** A socket that connects to a single destination. It does not wait. */
export class TcpSocket implements Disposable {
  readonly #fd: Fd;
  readonly #address: Bytes;

  /**
   * Opens a socket, which stays in the namespace.
   *
   * @param from The sender's address and port; the kernel chooses both if undefined
   * @throws {SyscallError} EAFNOSUPPORT, EMFILE; EADDRINUSE or EADDRNOTAVAIL
   */
  constructor(netns: NetNs, destination: Ip, port: number, from?: Sender) {
    const domain = SOCKET_DOMAINS[destination.family];
    const type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    using stack = new DisposableStack();
    this.#fd = stack.use(
      new Fd(inNetns(netns, () => libc.socket(domain, type, 0))),
    );
    if (from !== undefined) {
      libc.bind(this.#fd.number, encodeAddress(from.source, from.port));
    }
    stack.move();
    this.#address = encodeAddress(destination, port);
  }

  /** The descriptor's number, to wait for an answer. */
  get fd(): number {
    return this.#fd.number;
  }

  /**
   * Starts to connect; further calls report whether the connection is established.
   *
   * @throws {SyscallError} ECONNREFUSED; ENETUNREACH or EHOSTUNREACH if there is
   *   no route; ETIMEDOUT
   */
  isConnected(): boolean {
    // A second connect(2) returns the outcome of the first.
    try {
      libc.connect(this.fd, this.#address);
      return true;
    } catch (error) {
      if (isErrno(error, "EISCONN")) return true;
      if (isErrno(error, "EINPROGRESS", "EALREADY")) return false;
      throw error;
    }
  }

  /** Closes the connection. A second call does nothing. */
  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
  }
}
