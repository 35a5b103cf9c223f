/**
 * Netlink sockets: requests, answers and dumps.
 *
 * @module
 */

import { isErrno, SyscallError } from "../errno.ts";
import { Fd } from "../fd.ts";
import * as libc from "../libc.ts";
import type { Bytes } from "../libc.ts";
import { inNetns, NetNs } from "../netns.ts";
import type { DecodedAttributes, Rows } from "./attribute.ts";
import {
  decodeDone,
  decodeError,
  NetlinkError,
  type Verdict,
} from "./error.ts";
import {
  type Body,
  ControlType,
  encodeMessage,
  Flag,
  messageHeader,
  type MessageType,
  type RawMessage,
  splitMessages,
} from "./message.ts";
import {
  concat,
  type Fields,
  struct,
  type StructValue,
  u16,
  u32,
  u64,
} from "./struct.ts";

/** Source: include/linux/socket.h, include/linux/net.h. */
const AF_NETLINK = 16, SOCK_RAW = 3, SOCK_CLOEXEC = 0o2000000;
const MSG_PEEK = 0x2, MSG_TRUNC = 0x20, MSG_DONTWAIT = 0x40;
/** Source: include/uapi/asm-generic/socket.h. */
const SOL_SOCKET = 1, SO_SNDBUF = 7, SO_RCVTIMEO = 20, SO_SNDBUFFORCE = 32;
/** Source: include/uapi/linux/netlink.h. */
const SOL_NETLINK = 270;
const NETLINK_CAP_ACK = 10, NETLINK_EXT_ACK = 11, NETLINK_GET_STRICT_CHK = 12;

/** Address of a netlink socket; port 0 is the kernel. Source: `struct sockaddr_nl`. */
const socketAddress = struct({
  family: u16,
  padding: u16,
  portId: u32,
  groups: u32,
});
const KERNEL = socketAddress.encode({ family: AF_NETLINK });

/** Source: include/uapi/asm-generic/errno-base.h. */
const EINTR = 4;

/** Netlink families. Source: include/uapi/linux/netlink.h. */
export const Protocol = { Route: 0, Netfilter: 12 } as const;

/** Source: include/uapi/linux/time_types.h `struct timeval`. */
const timeval = struct({ seconds: u64, microseconds: u64 });
/** The kernel answers before send(2) returns, so after this wait the answer is lost. */
const RECEIVE_TIMEOUT_SECONDS = 10n;
/** The kernel fills at most 32 KiB per part of a dump, or less if the buffer is smaller. */
const RECEIVE_BUFFER_BYTES = 32 * 1024;
/** Every socket accepts this much in one send(2), however the machine is tuned. */
const SAFE_SEND_BYTES = 64 * 1024;
/** How often a dump is tried while the list keeps changing. */
const DUMP_ATTEMPTS = 10, INCOMPLETE_DUMP_ATTEMPTS = 3;

/** A request: its body and any flags besides REQUEST and ACK. */
export interface Request<F extends Fields, R extends Rows> extends Body<F, R> {
  /** Values of {@linkcode Flag}. */
  readonly flags?: number;
}

/** Options of a dump. */
export interface DumpOptions {
  /**
   * Whether to accept, after a few tries, a list that changed while it was read.
   * Entries may be missing or listed twice.
   */
  readonly mayBeIncomplete?: boolean | undefined;
}

/** One of several requests, encoded except for its sequence number. */
export interface EncodedRequest {
  /** The kernel's name of its type, used in errors. */
  readonly name: string;
  /** Names its object in errors. */
  readonly describe: () => string | undefined;
  /** The kernel's number of its type. */
  readonly type: number;
  /** All flags, including REQUEST and ACK. */
  readonly flags: number;
  /** The bytes after the common header. */
  readonly body: Bytes;
  /** Names the attribute at an offset of the body. */
  readonly locate: (offset: number) => string | undefined;
}

/** Encodes a request to send together with others. */
export function encodeRequest<F extends Fields, R extends Rows>(
  type: MessageType<F, R>,
  request: Request<F, R>,
): EncodedRequest {
  const body = type.encode(request);
  return {
    name: type.name,
    describe: () => type.describe?.(request),
    type: type.type,
    flags: Flag.Request | (request.flags ?? 0),
    body,
    locate: (offset) => type.locate?.(body, offset),
  };
}

/** A decoded answer. */
export interface Answer<F extends Fields, R extends Rows> {
  /** All fields of the fixed header. */
  readonly header: StructValue<F>;
  /** The attributes of the answer. */
  readonly attributes: DecodedAttributes<R>;
}

/** Shared by all sockets: its content never outlives one synchronous call. */
let receiveBuffer: Bytes | undefined;

/** A netlink socket that stays in the namespace where it was opened. */
export class NetlinkSocket implements Disposable {
  readonly #fd: Fd;
  #sequence = 0;

  private constructor(fd: Fd) {
    this.#fd = fd;
  }

  /**
   * Opens a socket inside a namespace.
   *
   * @param protocol One of {@linkcode Protocol}
   * @throws {SyscallError} If the namespace cannot be entered, or EPROTONOSUPPORT
   */
  static open(netns: NetNs, protocol: number): NetlinkSocket {
    const fd = new Fd(
      inNetns(
        netns,
        () => libc.socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol),
      ),
    );
    try {
      configure(fd.number);
      return new NetlinkSocket(fd);
    } catch (error) {
      fd[Symbol.dispose]();
      throw error;
    }
  }

  /**
   * Sends one request, waits for its acknowledgement and returns the messages
   * that came before it: an echo, or the requested objects.
   *
   * @param answers The type of the messages to return
   * @throws {NetlinkError} If the request cannot be sent or the kernel refuses it
   */
  request<F extends Fields, R extends Rows, AF extends Fields, AR extends Rows>(
    type: MessageType<F, R>,
    request: Request<F, R>,
    answers?: MessageType<AF, AR>,
  ): Answer<AF, AR>[] {
    const encoded = encodeRequest(type, request);
    const { verdict, replies } = this.#ask(encoded, Flag.Ack);
    throwIfRefused(encoded, verdict);
    return decodeAnswers(replies, answers);
  }

  /**
   * Sends several requests at once. Waits for the acknowledgement of the last
   * request that asks for one, or for the first refusal.
   *
   * @throws {NetlinkError} If the requests cannot be sent or the kernel refuses
   * one
   */
  requestAll(requests: readonly EncodedRequest[]): void {
    const first = this.#sequence + 1;
    const bytes = concat(
      requests.map(({ type, flags, body }) =>
        encodeMessage(type, flags, ++this.#sequence, body)
      ),
    );
    const last = requests.findLastIndex(({ flags }) => flags & Flag.Ack);
    const [begin] = requests;
    if (begin === undefined) return;
    during(begin, () => {
      if (bytes.length > SAFE_SEND_BYTES) {
        makeRoom(this.#fd.number, bytes.length);
      }
      libc.send(this.#fd.number, bytes, 0);
    });
    for (;;) {
      for (const reply of this.#receiveFirst(begin)) {
        const position = reply.sequence - first;
        const request = requests[position];
        if (request === undefined || reply.type !== ControlType.Error) continue;
        const verdict = decodeError(reply);
        if (verdict.errno !== 0) this.#dropAnswers();
        throwIfRefused(request, verdict);
        if (position === last) return;
      }
    }
  }

  /**
   * Receives messages even if later ones were lost. The buffer holds about 300
   * refusals.
   */
  #receiveFirst(begin: EncodedRequest): RawMessage[] {
    try {
      return this.#receive(begin);
    } catch (error) {
      if (!isErrno(error, "ENOBUFS")) throw error;
      return this.#receive(begin);
    }
  }

  /** Drops unread answers, to make room for the next request's. */
  #dropAnswers(): void {
    const buffer = new Uint8Array(1);
    try {
      for (;;) libc.recv(this.#fd.number, buffer, MSG_DONTWAIT);
    } catch (error) {
      if (!isErrno(error, "EAGAIN")) throw error;
    }
  }

  /**
   * Lists the kernel's objects, and starts again if the list changes meanwhile.
   * All parts are received before any is decoded: the kernel writes the next
   * part when one is received, so any work in between makes a change more
   * likely.
   *
   * @param answers The type of the messages to return
   * @throws {NetlinkError} If the request cannot be sent or the kernel refuses
   * it; EINTR if the list keeps changing
   */
  dump<F extends Fields, R extends Rows, AF extends Fields, AR extends Rows>(
    type: MessageType<F, R>,
    request: Request<F, R>,
    answers: MessageType<AF, AR>,
    { mayBeIncomplete = false }: DumpOptions = {},
  ): Answer<AF, AR>[] {
    const describe = (): string => type.describe?.(request) ?? "list";
    const encoded = { ...encodeRequest(type, request), describe };
    const attempts = mayBeIncomplete ? INCOMPLETE_DUMP_ATTEMPTS : DUMP_ATTEMPTS;
    for (let attempt = 1;; attempt++) {
      const { verdict, replies } = this.#ask(encoded, Flag.Dump);
      throwIfRefused(encoded, verdict);
      // Any part may have the flag.
      const isWhole = replies.every(({ flags }) =>
        (flags & Flag.DumpInterrupted) === 0
      );
      if (isWhole || mayBeIncomplete && attempt === attempts) {
        return decodeAnswers(replies, answers);
      }
      if (attempt < attempts) continue;
      throw new NetlinkError(encoded.name, EINTR, {
        object: encoded.describe(),
        extAck: `the list changed during each of ${attempts} dumps`,
      });
    }
  }

  /** Sends a request, and receives everything up to the verdict on it. */
  #ask(request: EncodedRequest, flags: number): Outcome {
    const sequence = this.#sequence = (this.#sequence + 1) % 0x1_0000_0000;
    const { type, body } = request;
    const bytes = encodeMessage(type, request.flags | flags, sequence, body);
    during(request, () => libc.send(this.#fd.number, bytes, 0));
    const replies: RawMessage[] = [];
    for (;;) {
      for (const reply of this.#receive(request)) {
        // Late answers to earlier requests are dropped.
        if (reply.sequence !== sequence) continue;
        replies.push(reply);
        if (reply.type === ControlType.Done) {
          return { verdict: decodeDone(reply), replies };
        }
        if (reply.type === ControlType.Error) {
          return { verdict: decodeError(reply), replies };
        }
      }
    }
  }

  /** Receives one datagram, which holds one or more messages. */
  #receive(request: EncodedRequest): RawMessage[] {
    return splitMessages(during(request, () => receive(this.#fd.number)));
  }

  /** Closes the socket; a second call does nothing. */
  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
  }
}

/**
 * Prepares a socket. Connecting it to the kernel blocks messages from other
 * sockets: root in a user namespace may send to any port of the network
 * namespaces it owns, and could forge answers.
 *
 * Source: net/netlink/af_netlink.c `netlink_getsockbyportid`.
 */
function configure(fd: number): void {
  libc.connect(fd, KERNEL);
  for (
    // Only with strict checking does the kernel honour a dump's filters.
    const name of [NETLINK_CAP_ACK, NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK]
  ) {
    libc.setSocketOption(fd, { level: SOL_NETLINK, name, value: 1 });
  }
  libc.setSocketOptionBytes(fd, {
    level: SOL_SOCKET,
    name: SO_RCVTIMEO,
    value: timeval.encode({ seconds: RECEIVE_TIMEOUT_SECONDS }),
  });
}

/**
 * Enlarges the send buffer, which must hold everything that is sent at once.
 * Only CAP_NET_ADMIN in the machine's own user namespace may exceed the limit
 * `net.core.wmem_max`; other processes get as much as it allows.
 */
function makeRoom(fd: number, value: number): void {
  const level = SOL_SOCKET;
  try {
    libc.setSocketOption(fd, { level, name: SO_SNDBUFFORCE, value });
  } catch (error) {
    if (!isErrno(error, "EPERM")) throw error;
    libc.setSocketOption(fd, { level, name: SO_SNDBUF, value });
  }
}

/** Receives one whole datagram. Its length is peeked at first. */
function receive(fd: number): Bytes {
  receiveBuffer ??= new Uint8Array(RECEIVE_BUFFER_BYTES);
  const length = uninterrupted(fd, MSG_PEEK | MSG_TRUNC);
  if (length > receiveBuffer.length) {
    receiveBuffer = new Uint8Array(length);
  }
  return receiveBuffer.slice(0, uninterrupted(fd, 0));
}

function uninterrupted(fd: number, flags: number): number {
  for (;;) {
    try {
      return libc.recv(fd, receiveBuffer ?? new Uint8Array(0), flags);
    } catch (error) {
      if (!isErrno(error, "EINTR")) throw error;
    }
  }
}

/** The outcome of a request. */
interface Outcome {
  readonly verdict: Verdict;
  /** All answers to the request, undecoded. */
  readonly replies: readonly RawMessage[];
}

function decodeAnswers<F extends Fields, R extends Rows>(
  replies: readonly RawMessage[],
  answers: MessageType<F, R> | undefined,
): Answer<F, R>[] {
  if (answers === undefined) return [];
  return replies.filter(({ type }) => type === answers.type)
    .map(({ body }) => answers.decode(body));
}

/**
 * Runs `work`, and names the request in the error of a failed system call.
 *
 * @throws {NetlinkError} With the call's errno
 */
function during<T>({ name, describe }: EncodedRequest, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error;
    const { syscall, number } = error;
    throw new NetlinkError(name, number, { object: describe(), syscall });
  }
}

/** @throws {NetlinkError} If the verdict is an error */
function throwIfRefused(
  { name, describe, locate }: EncodedRequest,
  { errno, extAck, offset }: Verdict,
): void {
  if (errno === 0) return;
  const attribute = offset === undefined
    ? undefined
    : locate(offset - messageHeader.size);
  const object = describe();
  throw new NetlinkError(name, errno, { object, extAck, attribute });
}
