/**
 * TCP connections from a namespace, without a program.
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import type { Ip } from "../../net/ip.ts";
import { isErrno } from "../errno.ts";
import { Fd } from "../file/fd.ts";
import * as libc from "../libc.ts";
import { inNetns, type NetNs } from "../netns.ts";
import { encodeAddress, SOCKET_DOMAINS } from "./socket_address.ts";

/** Source: include/linux/socket.h, include/linux/net.h. */
const SOCK_STREAM = 1, SOCK_NONBLOCK = 0o4000, SOCK_CLOEXEC = 0o2000000;

/** A socket that connects to one destination. It does not wait. */
export class TcpSocket implements Disposable {
  readonly #fd: Fd;
  readonly #address: Bytes;

  /**
   * Opens a socket, which stays in the namespace.
   *
   * @throws {SyscallError} EAFNOSUPPORT, EMFILE
   */
  constructor(netns: NetNs, destination: Ip, port: number) {
    const domain = SOCKET_DOMAINS[destination.family];
    const type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    this.#fd = new Fd(inNetns(netns, () => libc.socket(domain, type, 0)));
    this.#address = encodeAddress(destination, port);
  }

  /** The descriptor's number, to wait for an answer. */
  get fd(): number {
    return this.#fd.number;
  }

  /**
   * Begins to connect; later, reports whether the connection is made.
   *
   * @throws {SyscallError} ECONNREFUSED; ENETUNREACH or EHOSTUNREACH if there is
   *   no route; ETIMEDOUT
   */
  isConnected(): boolean {
    // A second connect(2) returns the outcome of the first one.
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
