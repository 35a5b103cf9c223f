/**
 * System calls on netlink sockets: open, options, and whole datagrams.
 *
 * @module
 */

import { type Bytes, struct, u16, u32, u64 } from "../../net/bytes.ts";
import { isErrno, SyscallError } from "../errno.ts";
import { Fd } from "../file/fd.ts";
import * as libc from "../libc.ts";
import { inNetns, type NetNs } from "../netns.ts";

/** Source: include/linux/socket.h, include/linux/net.h. */
const AF_NETLINK = 16, SOCK_RAW = 3, SOCK_CLOEXEC = 0o2000000;
const MSG_TRUNC = 0x20, MSG_DONTWAIT = 0x40;
/** Source: include/uapi/asm-generic/socket.h. */
const SOL_SOCKET = 1, SO_SNDBUF = 7, SO_RCVBUF = 8, SO_RCVTIMEO = 20;
const SO_SNDBUFFORCE = 32, SO_RCVBUFFORCE = 33, SO_NETNS_COOKIE = 71;
/** Source: include/uapi/linux/netlink.h. */
const SOL_NETLINK = 270;
const NETLINK_ADD_MEMBERSHIP = 1,
  NETLINK_LISTEN_ALL_NSID = 8,
  NETLINK_EXT_ACK = 11,
  NETLINK_GET_STRICT_CHK = 12;

/** Address of a netlink socket; port 0 is the kernel. Source: `struct sockaddr_nl`. */
const socketAddress = struct({
  family: u16,
  padding: u16,
  portId: u32,
  groups: u32,
});
const KERNEL = socketAddress.encode({ family: AF_NETLINK });

/** Source: include/uapi/asm-generic/errno-base.h. */
const EMSGSIZE = 90;

/** Source: include/uapi/linux/time_types.h `struct timeval`. */
const timeval = struct({ seconds: u64, microseconds: u64 });
/**
 * How long to wait for an answer before it counts as lost. Callers of the daemon wait
 * longer for a sign of life, during which a kernel request can run.
 */
const RECEIVE_TIMEOUT_SECONDS = 3n;
/**
 * Larger than any message: a dump comes in parts of at most 32 KiB, and an object has
 * a few attributes of at most 64 KiB. Memory that no message has reached yet costs
 * nothing.
 */
const RECEIVE_BUFFER_BYTES = 1 << 20;
/** Default room for notifications, which come faster than a busy thread reads them. */
const NOTIFICATION_BYTES = 4 << 20;
/**
 * Every socket accepts this much in a single send(2), whatever the machine's
 * settings.
 */
const SAFE_SEND_BYTES = 64 * 1024;
/** Shared by all sockets: each synchronous call overwrites its content. */
let receiveBuffer: Bytes | undefined;

/**
 * Opens a socket in a namespace. Connecting it to the kernel blocks messages from
 * other sockets: root in a user namespace can send to any port of the network
 * namespaces that it owns, and could forge answers.
 *
 * Source: net/netlink/af_netlink.c `netlink_getsockbyportid`.
 *
 * @throws {SyscallError} If the namespace cannot be entered, or EPROTONOSUPPORT
 */
export function openSocket(netns: NetNs, protocol: number): Fd {
  using stack = new DisposableStack();
  const type = SOCK_RAW | SOCK_CLOEXEC;
  const fd = stack.use(
    new Fd(inNetns(netns, () => libc.socket(AF_NETLINK, type, protocol))),
  );
  libc.connect(fd.number, KERNEL);
  setOption(fd.number, NETLINK_EXT_ACK, 1);
  stack.move();
  return fd;
}

/** Makes the kernel apply the filters of dumps. */
export function makeStrict(fd: number): void {
  setOption(fd, NETLINK_GET_STRICT_CHK, 1);
}

/**
 * Subscribes to notifications.
 *
 * @param group The kernel's number of the group
 * @param unreadBytes Room for notifications that have not been received yet
 */
export function subscribe(
  fd: number,
  group: number,
  unreadBytes = NOTIFICATION_BYTES,
): void {
  setBuffer(fd, [SO_RCVBUFFORCE, SO_RCVBUF], unreadBytes);
  setOption(fd, NETLINK_ADD_MEMBERSHIP, group);
}

/**
 * Delivers the notifications of other namespaces as well, if they have an nsid in the
 * socket's namespace.
 *
 * @throws {SyscallError} EPERM without CAP_NET_BROADCAST
 */
export function listenToAllNsids(fd: number): void {
  setOption(fd, NETLINK_LISTEN_ALL_NSID, 1);
}

/** Returns the cookie of the socket's namespace; undefined before Linux 5.14. */
export function findNetnsCookie(fd: number): bigint | undefined {
  const value = u64.encode(0n);
  try {
    const option = { level: SOL_SOCKET, name: SO_NETNS_COOKIE, value };
    libc.getSocketOption(fd, option);
  } catch (error) {
    if (isErrno(error, "ENOPROTOOPT")) return undefined;
    throw error;
  }
  return u64.decode(value);
}

function setOption(fd: number, name: number, value: number): void {
  libc.setSocketOption(fd, { level: SOL_NETLINK, name, value });
}

/**
 * Enlarges the send buffer if necessary, because it must hold all requests that are
 * sent together. Only CAP_NET_ADMIN in the machine's own user namespace can exceed
 * the limit `net.core.wmem_max`; other processes get as much as the limit allows.
 */
export function enlargeSendBuffer(fd: number, bytes: number): void {
  if (bytes <= SAFE_SEND_BYTES) return;
  setBuffer(fd, [SO_SNDBUFFORCE, SO_SNDBUF], bytes);
}

/** @param names The options; the first option needs the privilege */
function setBuffer(
  fd: number,
  [forced, name]: readonly [forced: number, name: number],
  value: number,
): void {
  const level = SOL_SOCKET;
  try {
    libc.setSocketOption(fd, { level, name: forced, value });
  } catch (error) {
    if (!isErrno(error, "EPERM")) throw error;
    libc.setSocketOption(fd, { level, name, value });
  }
}

/**
 * Receives a whole datagram. The kernel answers before send(2) returns, so the answer
 * has usually arrived; otherwise, this waits for it.
 */
export function receive(fd: number): Bytes {
  const bytes = receiveNow(fd);
  if (bytes !== undefined) return bytes;
  const value = timeval.encode({ seconds: RECEIVE_TIMEOUT_SECONDS });
  const option = { level: SOL_SOCKET, name: SO_RCVTIMEO, value };
  libc.setSocketOptionBytes(fd, option);
  return receiveWith(fd, MSG_TRUNC);
}

/** Receives a whole datagram if there is any. */
export function receiveNow(fd: number): Bytes | undefined {
  try {
    return receiveWith(fd, MSG_TRUNC | MSG_DONTWAIT);
  } catch (error) {
    if (isErrno(error, "EAGAIN")) return undefined;
    throw error;
  }
}

function receiveWith(fd: number, flags: number): Bytes {
  receiveBuffer ??= new Uint8Array(RECEIVE_BUFFER_BYTES);
  for (;;) {
    try {
      const length = libc.recv(fd, receiveBuffer, flags);
      if (length <= receiveBuffer.length) return receiveBuffer.slice(0, length);
    } catch (error) {
      if (!isErrno(error, "EINTR")) throw error;
      continue;
    }
    throw new SyscallError("recv", EMSGSIZE);
  }
}

/** Drops unread answers, to make room for answers to the next request. */
export function dropAnswers(fd: number): void {
  const buffer = new Uint8Array(1);
  for (;;) {
    try {
      libc.recv(fd, buffer, MSG_DONTWAIT);
    } catch (error) {
      if (isErrno(error, "EAGAIN")) return;
      // Some answers did not fit into the buffer.
      if (!isErrno(error, "ENOBUFS", "EINTR")) throw error;
    }
  }
}
