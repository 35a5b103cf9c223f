/**
 * UDP over IPv6 on a link, between link-local addresses and multicast groups.
 *
 * @module
 */

import { type Bytes, viewOf } from "../../net/bytes.ts";
import type { Ip } from "../../net/ip.ts";
import { Fd } from "../file/fd.ts";
import * as libc from "../libc.ts";
import { inNetns, type NetNs } from "../netns.ts";
import { encodeAddress, SOCKET_DOMAINS } from "./socket_address.ts";

/** Source: include/linux/socket.h, include/linux/net.h. */
const SOCK_DGRAM = 2, SOCK_NONBLOCK = 0o4000, SOCK_CLOEXEC = 0o2000000;
/** Offset of `sin6_scope_id`. Source: include/uapi/linux/in6.h. */
const SCOPE_OFFSET = 24;

/** Longest datagram to receive, in bytes. */
const DATAGRAM_BYTES = 16 * 1024;

/** A socket with a link-local address and a port. It does not wait. */
export class LinkUdpSocket implements Disposable {
  readonly #fd: Fd;
  readonly #ifindex: number;
  readonly #buffer: Bytes = new Uint8Array(DATAGRAM_BYTES);

  /**
   * Opens a socket on a link. It stays in the link's namespace.
   *
   * @param source A link-local address of the link
   * @throws {SyscallError} EADDRINUSE; EADDRNOTAVAIL during duplicate address
   * detection
   */
  constructor(
    netns: NetNs,
    { ifindex, source, port }: {
      readonly ifindex: number;
      readonly source: Ip;
      readonly port: number;
    },
  ) {
    const type = SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    using stack = new DisposableStack();
    const fd = stack.use(
      new Fd(inNetns(netns, () => libc.socket(SOCKET_DOMAINS[6], type, 0))),
    );
    this.#ifindex = ifindex;
    libc.bind(fd.number, this.#addressOf(source, port));
    stack.move();
    this.#fd = fd;
  }

  #addressOf(ip: Ip, port: number): Bytes {
    const address = encodeAddress(ip, port);
    viewOf(address).setUint32(SCOPE_OFFSET, this.#ifindex, true);
    return address;
  }

  /** The descriptor's number, to wait for datagrams. */
  get fd(): number {
    return this.#fd.number;
  }

  /**
   * Sends a datagram.
   *
   * @throws {SyscallError} ENETDOWN, ENETUNREACH, ENODEV
   */
  send(destination: Ip, port: number, datagram: Bytes): void {
    libc.sendTo(this.fd, datagram, this.#addressOf(destination, port));
  }

  /** Returns the next datagram; undefined if none has arrived. */
  receive(): Bytes | undefined {
    const length = libc.recvNow(this.fd, this.#buffer);
    return length === undefined ? undefined : this.#buffer.slice(0, length);
  }

  /** Closes the socket. A second call does nothing. */
  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
  }
}
