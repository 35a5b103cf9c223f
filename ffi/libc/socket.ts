/**
 * Sockets: socket(2), connect(2), send(2), recv(2) and their options.
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import {
  attempt,
  checked,
  libc,
  openSymbols,
  PADDING,
  UNCOMPILED,
  unlessBusy,
  unlessFailed,
} from "./call.ts";

/** Symbols of sockets that receive whole frames. */
const MESSAGE_SYMBOLS = {
  recvmsg: { parameters: ["i32", "buffer", "i32", UNCOMPILED], result: "i32" },
} as const;

/** Symbols of sockets that send to several destinations. Six arguments leave no register. */
const DESTINATION_SYMBOLS = {
  sendto: {
    parameters: ["i32", "buffer", "usize", "i32", "buffer", "u32"],
    result: "isize",
  },
} as const;

/** Source: include/linux/socket.h. */
const MSG_DONTWAIT = 0x40, MSG_NOSIGNAL = 0x4000;

/**
 * Makes a call that can wait until its socket's time limit. When the limit expires,
 * the call fails with EAGAIN as well, so it is not repeated.
 */
function attemptOnSocket(
  flags: number,
  call: (flags: number) => number,
): number {
  return attempt(() => call(flags), () => call(flags | MSG_DONTWAIT));
}

/** socket(2). Returns a descriptor. */
export function socket(domain: number, type: number, protocol: number): number {
  return checked(
    "socket",
    () => libc().symbols.socket(domain, type, protocol, PADDING),
  );
}

/** setsockopt(2) with a 32-bit integer value. */
export function setSocketOption(
  fd: number,
  option: { level: number; name: number; value: number },
): void {
  setSocketOptionBytes(fd, {
    ...option,
    value: new Uint8Array(new Int32Array([option.value]).buffer),
  });
}

/** setsockopt(2) with a value of any layout. */
export function setSocketOptionBytes(
  fd: number,
  { level, name, value }: { level: number; name: number; value: Bytes },
): void {
  const { symbols } = libc();
  checked(
    "setsockopt",
    () => symbols.setsockopt(fd, level, name, value, value.length, PADDING),
  );
}

/** connect(2). The address is a `struct sockaddr` of the socket's family. */
export function connect(fd: number, address: Bytes): void {
  const { symbols } = libc();
  checked(
    "connect",
    () => symbols.connect(fd, address, address.length, PADDING),
  );
}

/** send(2) to the socket's peer. Returns the bytes sent. */
export function send(fd: number, message: Bytes, flags: number): number {
  const { symbols } = libc();
  const result = attemptOnSocket(
    flags,
    (flags) => symbols.send(fd, message, message.length, flags, PADDING),
  );
  return unlessFailed("send", result);
}

let destinations:
  | Deno.DynamicLibrary<typeof DESTINATION_SYMBOLS>["symbols"]
  | undefined;

/** sendto(2). The address is a `struct sockaddr` of the socket's family. */
export function sendTo(fd: number, message: Bytes, address: Bytes): void {
  const { sendto } = destinations ??= openSymbols(DESTINATION_SYMBOLS);
  checked("sendto", () =>
    Number(
      sendto(
        fd,
        message,
        BigInt(message.length),
        MSG_NOSIGNAL,
        address,
        address.length,
      ),
    ));
}

/** recv(2). Returns the bytes received; more than the buffer holds with MSG_TRUNC. */
export function recv(fd: number, buffer: Bytes, flags: number): number {
  const { symbols } = libc();
  const result = attemptOnSocket(
    flags,
    (flags) => symbols.recv(fd, buffer, buffer.length, flags, PADDING),
  );
  return unlessFailed("recv", result);
}

/**
 * The most network datagrams that are read in a row. Afterwards the event loop runs,
 * even if senders are fast. A receive buffer of the default size holds fewer
 * datagrams.
 */
export const MOST_DATAGRAMS = 512;

/** Yields datagrams until none is waiting, but at most {@linkcode MOST_DATAGRAMS}. */
export function* readTogether<T>(read: () => T | undefined): Generator<T> {
  for (let count = 0; count < MOST_DATAGRAMS; count++) {
    const datagram = read();
    if (datagram === undefined) return;
    yield datagram;
  }
}

/** recv(2) of a non-blocking socket; undefined if no data has arrived. */
export function recvNow(fd: number, buffer: Bytes): number | undefined {
  const { symbols } = libc();
  return unlessBusy(
    "recv",
    () => symbols.recv(fd, buffer, buffer.length, 0, PADDING),
  );
}

/** send(2) to a non-blocking socket; undefined if its buffer is full. */
export function sendNow(fd: number, bytes: Bytes): number | undefined {
  const { symbols } = libc();
  return unlessBusy(
    "send",
    () => symbols.send(fd, bytes, bytes.length, MSG_NOSIGNAL, PADDING),
  );
}

let messages:
  | Deno.DynamicLibrary<typeof MESSAGE_SYMBOLS>["symbols"]
  | undefined;

/**
 * recvmsg(2) without waiting.
 *
 * @param header A `struct msghdr`, which points to memory that the caller keeps
 * @returns The bytes received; undefined if no data has arrived
 */
export function receiveMessage(fd: number, header: Bytes): number | undefined {
  const symbols = messages ??= openSymbols(MESSAGE_SYMBOLS);
  return unlessBusy(
    "recvmsg",
    () => symbols.recvmsg(fd, header, MSG_DONTWAIT, PADDING),
  );
}
