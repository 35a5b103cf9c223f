/**
 * UDP datagrams from a namespace to a single destination, without a program.
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import type { Ip } from "../../net/ip.ts";
import { Fd } from "../file/fd.ts";
import * as libc from "../libc.ts";
import { inNetns, type NetNs } from "../netns.ts";
import { encodeAddress, SOCKET_DOMAINS } from "./socket_address.ts";

/** Source: include/linux/socket.h, include/linux/net.h. */
const SOCK_DGRAM = 2, SOCK_NONBLOCK = 0o4000, SOCK_CLOEXEC = 0o2000000;

/** The source of datagrams and connections. */
export interface Sender {
  readonly source: Ip;
  readonly port: number;
}

/** A socket that exchanges datagrams with a single destination. It does not wait. */
export class UdpSocket implements Disposable {
  readonly #fd: Fd;
  readonly #buffer: Bytes = new Uint8Array(4096);

  /**
   * Opens a socket, which stays in the namespace.
   *
   * @param from The sender's address and port; the kernel chooses both if undefined
   * @throws {SyscallError} ENETUNREACH or EHOSTUNREACH without a route; EADDRINUSE or
   * EADDRNOTAVAIL if the source cannot be used
   */
  constructor(netns: NetNs, destination: Ip, port: number, from?: Sender) {
    const domain = SOCKET_DOMAINS[destination.family];
    const type = SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    using stack = new DisposableStack();
    const fd = stack.use(
      new Fd(inNetns(netns, () => libc.socket(domain, type, 0))),
    );
    if (from !== undefined) {
      libc.bind(fd.number, encodeAddress(from.source, from.port));
    }
    libc.connect(fd.number, encodeAddress(destination, port));
    stack.move();
    this.#fd = fd;
  }

  /** The descriptor's number, to wait for an answer. */
  get fd(): number {
    return this.#fd.number;
  }

  /**
   * Sends a datagram.
   *
   * @throws {SyscallError} ECONNREFUSED if an earlier datagram was refused; EPERM if
   * rules of the namespace refuse it
   */
  send(datagram: Bytes): void {
    libc.send(this.fd, datagram, 0);
  }

  /**
   * Returns the next datagram; undefined if none has arrived.
   *
   * @throws {SyscallError} ECONNREFUSED if no process listens
   */
  receive(): Bytes | undefined {
    const length = libc.recvNow(this.fd, this.#buffer);
    return length === undefined ? undefined : this.#buffer.slice(0, length);
  }

  /** Closes the socket. A second call does nothing. */
  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
  }
}
