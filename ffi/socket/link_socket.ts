/**
 * Packet sockets, which send and receive whole frames on a link.
 *
 * @module
 */

import { type Bytes, concat, viewOf } from "../../net/bytes.ts";
import type { Mac } from "../../net/mac.ts";
import { Fd } from "../file/fd.ts";
import * as libc from "../libc.ts";
import { inNetns, type NetNs } from "../netns.ts";

/** Source: include/linux/socket.h, include/linux/net.h. */
const AF_PACKET = 17,
  SOCK_RAW = 3,
  SOCK_NONBLOCK = 0o4000,
  SOCK_CLOEXEC = 0o2000000;

/** Source: include/uapi/asm-generic/socket.h. */
const SOL_SOCKET = 1, SO_ATTACH_FILTER = 26;
/** Size of a `struct sock_fprog`. */
const PROGRAM_BYTES = 16;

/**
 * Selects the frames that a socket receives: instructions as `[code, jump if true,
 * jump if false, operand]`.
 *
 * Source: include/uapi/linux/filter.h, bpf_common.h.
 */
export type Filter = readonly (readonly [
  code: number,
  yes: number,
  no: number,
  operand: number,
])[];

/** The properties of a link that its sockets need. */
export interface SocketLink {
  readonly index: number;
  readonly mac: Mac;
}

/**
 * A socket for the frames of an EtherType on a link. It does not wait.
 *
 * Closing it takes the kernel at least 10 ms, until no CPU uses it. Other threads can
 * wait for several sockets at the same time.
 */
export abstract class LinkSocket implements Disposable {
  readonly #fd: Fd;
  readonly #buffer: Bytes;

  /**
   * Opens a socket on a link. It stays in the link's namespace.
   *
   * @param frameBytes How much of a frame to receive
   * @throws {SyscallError} ENODEV, ENETDOWN; EPERM without CAP_NET_RAW
   */
  constructor(netns: NetNs, frames: LinkFrames, frameBytes: number) {
    this.#fd = openLinkSocket(netns, frames);
    this.#buffer = new Uint8Array(frameBytes);
  }

  /** The descriptor's number, to wait until it is readable. */
  get fd(): number {
    return this.#fd.number;
  }

  /** Receives the frames that have arrived. Each frame is valid until the next. */
  protected *frames(): Generator<Bytes> {
    const read = (): number | undefined => libc.recvNow(this.fd, this.#buffer);
    for (const length of libc.readTogether(read)) {
      yield this.#buffer.subarray(0, length);
    }
  }

  /** Closes the socket. A second call does nothing. */
  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
  }

  /** Closes the socket on another thread. A second call does nothing. */
  closeInBackground(): PromiseLike<unknown> | undefined {
    return this.#fd.closeInBackground();
  }
}

/** The frames that a socket receives. */
export interface LinkFrames {
  /** Index of the link. */
  readonly ifindex: number;
  /** Source: include/uapi/linux/if_ether.h. */
  readonly etherType: number;
  /** Prepares the socket before it receives anything. */
  readonly prepare?: (fd: number) => void;
}

/**
 * Opens a socket on a link. It stays in the link's namespace.
 *
 * @throws {SyscallError} ENODEV, ENETDOWN; EPERM without CAP_NET_RAW
 */
export function openLinkSocket(
  netns: NetNs,
  { ifindex, etherType, prepare }: LinkFrames,
): Fd {
  using stack = new DisposableStack();
  const type = SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC;
  // Protocol 0 receives nothing until the socket is bound.
  const fd = stack.use(
    new Fd(inNetns(netns, () => libc.socket(AF_PACKET, type, 0))),
  );
  prepare?.(fd.number);
  libc.bind(fd.number, encodeAddress(ifindex, etherType));
  stack.move();
  return fd;
}

/** Encodes a `struct sockaddr_ll`. Source: include/uapi/linux/if_packet.h. */
function encodeAddress(ifindex: number, etherType: number): Bytes {
  const address = new Uint8Array(20);
  const view = viewOf(address);
  view.setUint16(0, AF_PACKET, true);
  view.setUint16(2, etherType);
  view.setInt32(4, ifindex, true);
  return address;
}

/** Makes the kernel drop the frames for which a filter returns 0. */
export function attachFilter(fd: number, program: Filter): void {
  const instructions = concat(
    program.map(([code, yes, no, operand]) => {
      const bytes = new Uint8Array([code, 0, yes, no, 0, 0, 0, 0]);
      viewOf(bytes).setUint32(4, operand, true);
      return bytes;
    }),
  );
  // A `struct sock_fprog` and its instructions share memory, which exists as long as
  // the struct.
  const memory = new Uint8Array(PROGRAM_BYTES + instructions.length);
  memory.set(instructions, PROGRAM_BYTES);
  const base = Deno.UnsafePointer.value(Deno.UnsafePointer.of(memory));
  const words = new BigUint64Array(memory.buffer, 0, 2);
  words.set([BigInt(program.length), base + BigInt(PROGRAM_BYTES)]);
  libc.setSocketOptionBytes(fd, {
    level: SOL_SOCKET,
    name: SO_ATTACH_FILTER,
    value: memory.subarray(0, PROGRAM_BYTES),
  });
}
