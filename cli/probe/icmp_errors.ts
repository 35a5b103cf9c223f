/**
 * Errors of ICMP that arrive in a namespace: who refused which packet, and why.
 *
 * Source: RFC 792, RFC 4443.
 *
 * @module
 */

import { type Bytes, viewOf } from "../../net/bytes.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import { Fd } from "../../ffi/file/fd.ts";
import * as libc from "../../ffi/libc.ts";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { SOCKET_DOMAINS } from "../../ffi/socket/socket_address.ts";

/** Source: include/linux/socket.h, include/linux/net.h. */
const SOCK_RAW = 3, SOCK_NONBLOCK = 0o4000, SOCK_CLOEXEC = 0o2000000;

/** An error, and the packet that it is about. */
export interface IcmpError {
  /** The router or host that sent it. */
  readonly sender: Ip;
  /** The message, such as `net unreachable`. */
  readonly text: string;
  /** Whether the host has no program at the packet's port. */
  readonly isOfPort: boolean;
  /** Whether the packet passed more routers than its TTL allows. */
  readonly isExpired: boolean;
  /** The most that the next link takes, if the packet was too big. */
  readonly mtu: number | undefined;
  /** The packet's protocol. */
  readonly protocol: number;
  /** The packet's source port, or the identifier of its echo request. */
  readonly id: number;
}

/** What differs between the families; `id` is of TCP and UDP, then of ICMP. */
const FAMILIES: Readonly<
  Record<IpFamily, {
    readonly protocol: number;
    /** The type and code of these errors. */
    readonly tooBig: string;
    readonly ofPort: string;
    readonly expired: string;
    /** Texts by type and code; a type without a code has the code -1. */
    readonly texts: Readonly<Record<string, string>>;
    /** Where the packet's protocol and the header behind IP's begin. */
    readonly protocolAt: number;
    readonly headerBytes: number;
  }>
> = {
  4: {
    protocol: 1,
    tooBig: "3/4",
    ofPort: "3/3",
    expired: "11/0",
    texts: {
      "3/0": "net unreachable",
      "3/1": "host unreachable",
      "3/2": "protocol unreachable",
      "3/3": "port unreachable",
      "3/4": "packet too big",
      "3/9": "net prohibited",
      "3/10": "host prohibited",
      "3/13": "admin prohibited",
      "11/0": "time exceeded, as in a loop",
    },
    protocolAt: 9,
    headerBytes: 20,
  },
  6: {
    protocol: 58,
    tooBig: "2/0",
    ofPort: "1/4",
    expired: "3/0",
    texts: {
      "1/0": "no route",
      "1/1": "admin prohibited",
      "1/3": "address unreachable",
      "1/4": "port unreachable",
      "1/5": "source address failed policy",
      "1/6": "route rejected",
      "2/0": "packet too big",
      "3/0": "time exceeded, as in a loop",
    },
    protocolAt: 6,
    headerBytes: 40,
  },
};

/** Where parts of a `struct msghdr` and what it points to are in one block of memory. */
const Layout = { header: 0, vector: 64, name: 96, packet: 128 } as const;
const NAME_BYTES = 28, PACKET_BYTES = 2048, ICMP_HEADER_BYTES = 8;

/** A socket for the errors that a namespace receives. It does not wait. */
export class IcmpErrorSocket implements Disposable {
  readonly #fd: Fd;
  readonly #family: IpFamily;
  readonly #memory = layOutMessage();

  /**
   * Opens a socket, which stays in the namespace.
   *
   * @throws {SyscallError} EPERM without CAP_NET_RAW; EAFNOSUPPORT
   */
  constructor(netns: NetNs, family: IpFamily) {
    const type = SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC;
    const { protocol } = FAMILIES[family];
    this.#family = family;
    this.#fd = new Fd(
      inNetns(
        netns,
        () => libc.socket(SOCKET_DOMAINS[family], type, protocol),
      ),
    );
  }

  /** Returns the errors that have arrived, without waiting. */
  receive(): IcmpError[] {
    const errors: IcmpError[] = [];
    const read = (): number | undefined => {
      viewOf(this.#memory).setUint32(Layout.header + 8, NAME_BYTES, true);
      return libc.receiveMessage(this.#fd.number, this.#memory);
    };
    for (const length of libc.readTogether(read)) {
      const packet = this.#memory.slice(
        Layout.packet,
        Layout.packet + Math.min(length, PACKET_BYTES),
      );
      const name = this.#memory.slice(Layout.name, Layout.name + NAME_BYTES);
      const error = decodeError(packet, name, this.#family);
      if (error !== undefined) errors.push(error);
    }
    return errors;
  }

  /** Closes the socket. A second call does nothing. */
  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
  }
}

function layOutMessage(): Bytes {
  const memory = new Uint8Array(Layout.packet + PACKET_BYTES);
  const base = Deno.UnsafePointer.value(Deno.UnsafePointer.of(memory));
  const words = new BigUint64Array(memory.buffer);
  // msg_name, msg_iov, msg_iovlen
  words[Layout.header / 8] = base + BigInt(Layout.name);
  words[Layout.header / 8 + 2] = base + BigInt(Layout.vector);
  words[Layout.header / 8 + 3] = 1n;
  words[Layout.vector / 8] = base + BigInt(Layout.packet);
  words[Layout.vector / 8 + 1] = BigInt(PACKET_BYTES);
  return memory;
}

/** @param name The sender's `struct sockaddr_in` or `sockaddr_in6` */
function decodeError(
  packet: Bytes,
  name: Bytes,
  family: IpFamily,
): IcmpError | undefined {
  const { tooBig, ofPort, expired, texts, protocolAt, headerBytes } =
    FAMILIES[family];
  // Only sockets of IPv4 receive the IP header.
  const start = family === 4 ? ((packet[0] ?? 0) & 0x0f) * 4 : 0;
  const inner = start + ICMP_HEADER_BYTES;
  const [type = 0, code = 0] = packet.subarray(start);
  const kind = `${type}/${code}`;
  const text = texts[kind];
  if (text === undefined || packet.length < inner + headerBytes + 8) {
    return undefined;
  }
  const view = viewOf(packet);
  const size = family === 4 ? ((packet[inner] ?? 0) & 0x0f) * 4 : headerBytes;
  const protocol = packet[inner + protocolAt] ?? 0;
  const isEcho = protocol === FAMILIES[family].protocol;
  const at = inner + size + (isEcho ? 4 : 0);
  if (packet.length < at + 2) return undefined;
  const bytes = family === 4 ? name.slice(4, 8) : name.slice(8, 24);
  return {
    sender: Ip.fromBytes(bytes),
    text,
    isOfPort: kind === ofPort,
    isExpired: kind === expired,
    mtu: kind === tooBig
      ? family === 4 ? view.getUint16(start + 6) : view.getUint32(start + 4)
      : undefined,
    protocol,
    id: view.getUint16(at),
  };
}
