/**
 * UDP over a link that has no address yet, with packet sockets, which send and
 * receive whole frames.
 *
 * @module
 */

import { type Bytes, viewOf } from "../../net/bytes.ts";
import type { Fd } from "../file/fd.ts";
import * as libc from "../libc.ts";
import type { NetNs } from "../netns.ts";
import { attachFilter, type Filter, openLinkSocket } from "./link_socket.ts";
import {
  type Datagram,
  decodeDatagram,
  encodeDatagram,
  ETHERTYPE_IPV4,
} from "./udp_frame.ts";

/** Source: include/linux/socket.h. */
const SOL_PACKET = 263;
/** Source: include/uapi/linux/if_packet.h. */
const PACKET_AUXDATA = 8, TP_STATUS_CSUMNOTREADY = 8;

/** Longest frame to receive, in bytes. */
const FRAME_BYTES = 2048;

/**
 * Offsets of a `struct msghdr` and everything it points to, in a single block of
 * memory that is too large for V8 to move.
 *
 * Source: include/linux/socket.h, include/linux/uio.h.
 */
const Layout = { header: 0, vector: 64, control: 128, frame: 256 } as const;
const CONTROL_BYTES = 64;
/** Offsets of fields that recvmsg(2) changes or returns. */
const CONTROL_LENGTH = Layout.header + 40, STATUS = Layout.control + 16;

/** A socket for the UDP datagrams to a port that arrive on a link. */
export class PacketSocket implements Disposable {
  readonly #fd: Fd;
  readonly #memory = layOutMessage();

  private constructor(fd: Fd) {
    this.#fd = fd;
  }

  /**
   * Opens a socket on a link. It stays in the link's namespace.
   *
   * @throws {SyscallError} ENODEV, ENETDOWN; EPERM without CAP_NET_RAW
   */
  static open(
    netns: NetNs,
    { ifindex, port }: { ifindex: number; port: number },
  ): PacketSocket {
    const prepare = (fd: number): void => {
      const option = { level: SOL_PACKET, name: PACKET_AUXDATA, value: 1 };
      libc.setSocketOption(fd, option);
      attachFilter(fd, datagramsTo(port));
    };
    const etherType = ETHERTYPE_IPV4;
    return new PacketSocket(
      openLinkSocket(netns, { ifindex, etherType, prepare }),
    );
  }

  /** The descriptor's number. */
  get fd(): number {
    return this.#fd.number;
  }

  /**
   * Sends a datagram.
   *
   * @throws {SyscallError} ENETDOWN, ENXIO if the link was deleted
   */
  send(datagram: Datagram): void {
    libc.send(this.fd, encodeDatagram(datagram), 0);
  }

  /**
   * Receives the valid datagrams that have arrived.
   *
   * @throws {SyscallError} ENETDOWN
   */
  *receive(): Generator<Datagram> {
    const view = viewOf(this.#memory);
    const read = (): number | undefined => {
      view.setBigUint64(CONTROL_LENGTH, BigInt(CONTROL_BYTES), true);
      return libc.receiveMessage(this.fd, this.#memory);
    };
    for (const length of libc.readTogether(read)) {
      const status = view.getBigUint64(CONTROL_LENGTH, true) === 0n
        ? 0
        : view.getUint32(STATUS, true);
      const frame = this.#memory
        .slice(Layout.frame, Layout.frame + Math.min(length, FRAME_BYTES));
      // A sender on this machine leaves the checksum to a device, which the frame
      // never reaches.
      const hasChecksum = (status & TP_STATUS_CSUMNOTREADY) === 0;
      const datagram = decodeDatagram(frame, hasChecksum);
      if (datagram !== undefined) yield datagram;
    }
  }

  /** Closes the socket. A second call does nothing. */
  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
  }
}

function layOutMessage(): Bytes {
  const memory = new Uint8Array(Layout.frame + FRAME_BYTES);
  const base = Deno.UnsafePointer.value(Deno.UnsafePointer.of(memory));
  const words = new BigUint64Array(memory.buffer);
  // msg_iov, msg_iovlen, msg_control
  words[Layout.header / 8 + 2] = base + BigInt(Layout.vector);
  words[Layout.header / 8 + 3] = 1n;
  words[Layout.header / 8 + 4] = base + BigInt(Layout.control);
  words[Layout.vector / 8] = base + BigInt(Layout.frame);
  words[Layout.vector / 8 + 1] = BigInt(FRAME_BYTES);
  return memory;
}

/** Accepts only unfragmented UDP datagrams to a port. */
function datagramsTo(port: number): Filter {
  return [
    [0x28, 0, 0, 12], // the EtherType
    [0x15, 0, 8, ETHERTYPE_IPV4],
    [0x30, 0, 0, 23], // the protocol
    [0x15, 0, 6, 17],
    [0x28, 0, 0, 20], // the fragment's offset
    [0x45, 4, 0, 0x1fff],
    [0xb1, 0, 0, 14], // the length of the IP header
    [0x48, 0, 0, 16], // the port behind it
    [0x15, 0, 1, port],
    [0x06, 0, 0, FRAME_BYTES],
    [0x06, 0, 0, 0],
  ];
}
