/**
 * Packet sockets: they send and receive whole frames on one link.
 *
 * @module
 */

import { type Bytes, viewOf } from "../../net/bytes.ts";
import { Fd } from "../file/fd.ts";
import * as libc from "../libc.ts";
import { inNetns, type NetNs } from "../netns.ts";

/** Source: include/linux/socket.h, include/linux/net.h. */
const AF_PACKET = 17,
  SOCK_RAW = 3,
  SOCK_NONBLOCK = 0o4000,
  SOCK_CLOEXEC = 0o2000000;

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
