/**
 * ICMP echo requests from a namespace, without a program.
 *
 * Source: RFC 792, RFC 4443.
 *
 * @module
 */

import { type Bytes, viewOf } from "../../net/bytes.ts";
import type { Ip, IpFamily } from "../../net/ip.ts";
import { isSystemError } from "../../ffi/errno.ts";
import { Fd } from "../../ffi/file/fd.ts";
import * as libc from "../../ffi/libc.ts";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { checksumOf } from "../../ffi/socket/udp_frame.ts";
import {
  encodeAddress,
  SOCKET_DOMAINS,
} from "../../ffi/socket/socket_address.ts";

/** Source: include/linux/socket.h, include/linux/net.h. */
const SOCK_RAW = 3, SOCK_NONBLOCK = 0o4000, SOCK_CLOEXEC = 0o2000000;
/** Source: include/uapi/asm-generic/socket.h. */
const SOL_SOCKET = 1, SO_BINDTODEVICE = 25;
/**
 * Sends packets whole, whatever is known of the path, and has none of them cut up.
 *
 * Source: include/uapi/linux/in.h, in6.h `IP_PMTUDISC_PROBE`.
 */
const WHOLE: Readonly<
  Record<IpFamily, { readonly level: number; readonly name: number }>
> = { 4: { level: 0, name: 10 }, 6: { level: 41, name: 23 } };
const PMTUDISC_PROBE = 3;
const IP_HEADER_BYTES: Readonly<Record<IpFamily, number>> = { 4: 20, 6: 40 };

/** What differs between the families. Source: include/uapi/linux/in.h, in6.h, icmp.h. */
const FAMILIES: Readonly<
  Record<IpFamily, {
    readonly protocol: number;
    readonly request: number;
    readonly reply: number;
  }>
> = {
  4: { protocol: 1, request: 8, reply: 0 },
  6: { protocol: 58, request: 128, reply: 129 },
};

const HEADER_BYTES = 8;
/** A raw socket of IPv4 also receives the IP header. */
const BUFFER_BYTES = 256;

/** Where echo requests go. */
export interface EchoTarget {
  readonly destination: Ip;
  /** The sender's address; if undefined, the kernel chooses an address. */
  readonly source?: Ip | undefined;
  /** Name of the link to use; the route decides if undefined. */
  readonly link?: string | undefined;
  /**
   * Length of the packet with its IP header, in bytes; it is then not cut up on its
   * way. The shortest one if undefined.
   */
  readonly length?: number | undefined;
}

/** A non-blocking socket that sends echo requests to a destination. */
export class EchoSocket implements Disposable {
  readonly #fd: Fd;
  readonly #family: IpFamily;
  /** The identifier of its requests, which replies have, too. */
  readonly id: number = crypto.getRandomValues(new Uint16Array(1))[0] ?? 0;
  readonly #length: number;
  readonly #buffer = new Uint8Array(BUFFER_BYTES);

  private constructor(fd: Fd, family: IpFamily, length: number) {
    this.#fd = fd;
    this.#family = family;
    this.#length = length;
  }

  /**
   * Opens a socket. It stays in the namespace.
   *
   * @throws {SyscallError} EPERM without CAP_NET_RAW; ENETUNREACH, EHOSTUNREACH
   *   or EINVAL without a route; EADDRNOTAVAIL if the source is not an address
   *   of the namespace; ENODEV if the link does not exist
   */
  static open(
    netns: NetNs,
    { destination, source, link, length }: EchoTarget,
  ): EchoSocket {
    const { family } = destination;
    const { protocol } = FAMILIES[family];
    const domain = SOCKET_DOMAINS[family];
    const type = SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC;
    using stack = new DisposableStack();
    const socket = stack.use(
      new Fd(inNetns(netns, () => libc.socket(domain, type, protocol))),
    );
    const fd = socket.number;
    if (link !== undefined) {
      const value = new TextEncoder().encode(`${link}\0`);
      const option = { level: SOL_SOCKET, name: SO_BINDTODEVICE, value };
      libc.setSocketOptionBytes(fd, option);
    }
    if (length !== undefined) {
      libc.setSocketOption(fd, { ...WHOLE[family], value: PMTUDISC_PROBE });
    }
    if (source !== undefined) libc.bind(fd, encodeAddress(source));
    libc.connect(fd, encodeAddress(destination));
    stack.move();
    return new EchoSocket(
      socket,
      family,
      Math.max(HEADER_BYTES, (length ?? 0) - IP_HEADER_BYTES[family]),
    );
  }

  /** The descriptor's number, to wait until it is readable. */
  get fd(): number {
    return this.#fd.number;
  }

  /**
   * Sends a request.
   *
   * @throws {SyscallError} ENETUNREACH, EHOSTUNREACH, ENETDOWN; EMSGSIZE if the
   *   link does not take its length
   */
  send(): void {
    const { request } = FAMILIES[this.#family];
    libc.send(this.fd, encodeRequest(request, this.id, this.#length), 0);
  }

  /** Reports whether a reply has arrived, without waiting. */
  hasReply(): boolean {
    const { reply } = FAMILIES[this.#family];
    const read = (): number | undefined => receive(this.fd, this.#buffer);
    for (const length of libc.readTogether(read)) {
      const message = skipIpHeader(this.#buffer.subarray(0, length), reply);
      const id = message.length < HEADER_BYTES
        ? undefined
        : viewOf(message).getUint16(4);
      if (message[0] === reply && id === this.id) return true;
    }
    return false;
  }

  /** Closes the socket. A second call does nothing. */
  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
  }
}

/** Errors such as EHOSTUNREACH are reports of ICMP: not the reply. */
function receive(fd: number, buffer: Bytes): number | undefined {
  try {
    return libc.recvNow(fd, buffer);
  } catch (error) {
    if (!isSystemError(error)) throw error;
    return undefined;
  }
}

function skipIpHeader(packet: Bytes, reply: number): Bytes {
  if (reply !== FAMILIES[4].reply) return packet;
  return packet.subarray(((packet[0] ?? 0) & 0x0f) * 4);
}

function encodeRequest(type: number, id: number, length: number): Bytes {
  const bytes = new Uint8Array(length + length % 2);
  const view = viewOf(bytes);
  view.setUint8(0, type);
  view.setUint16(4, id);
  view.setUint16(6, 1);
  // The kernel computes the checksum of ICMPv6.
  view.setUint16(2, checksumOf(bytes));
  return bytes.subarray(0, length);
}
