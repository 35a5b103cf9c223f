/**
 * Netlink sockets: a request and its answer, and dumps.
 *
 * @module
 */

import { SyscallError } from "../errno.ts";
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
const MSG_PEEK = 0x2, MSG_TRUNC = 0x20;
/** Source: include/uapi/asm-generic/socket.h. */
const SOL_SOCKET = 1, SO_RCVTIMEO = 20, SO_SNDBUFFORCE = 32;
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

/** Netlink families. Source: include/uapi/linux/netlink.h. */
export const Protocol = { Route: 0, Netfilter: 12 } as const;

/** Source: include/uapi/linux/time_types.h `struct timeval`. */
const timeval = struct({ seconds: u64, microseconds: u64 });
/** The kernel answers before send(2) returns; a wait this long is a lost answer. */
const RECEIVE_TIMEOUT_SECONDS = 10n;
/** The kernel fills at most 32 KiB per part of a dump, and no more than we offer. */
const RECEIVE_BUFFER_BYTES = 32 * 1024;
/** A socket takes this much in one send(2), however the machine is tuned. */
const SAFE_SEND_BYTES = 64 * 1024;
/** How often a dump is started again because what it lists changed meanwhile. */
const DUMP_ATTEMPTS = 10;

/** A request: what it is, its body, and the flags beside REQUEST and ACK. */
export interface Request<F extends Fields, R extends Rows> extends Body<F, R> {
  /** Of {@linkcode Flag}. */
  readonly flags?: number;
}

/** A request that is one of several, encoded but for its number. */
export interface EncodedRequest {
  /** The kernel's name of its type, for error texts. */
  readonly name: string;
  /** The kernel's number of its type. */
  readonly type: number;
  /** All of them, REQUEST and ACK included. */
  readonly flags: number;
  /** What follows the common header. */
  readonly body: Bytes;
  /** Names the attribute at an offset of the body. */
  readonly locate: (offset: number) => string | undefined;
}

/** Encodes a request that is to be sent together with others. */
export function encodeRequest<F extends Fields, R extends Rows>(
  type: MessageType<F, R>,
  request: Request<F, R>,
): EncodedRequest {
  const body = type.encode(request);
  return {
    name: type.name,
    type: type.type,
    flags: Flag.Request | (request.flags ?? 0),
    body,
    locate: (offset) => type.locate?.(body, offset),
  };
}

/** A decoded answer. */
export interface Answer<F extends Fields, R extends Rows> {
  /** Every field. */
  readonly header: StructValue<F>;
  /** The attributes that were there. */
  readonly attributes: DecodedAttributes<R>;
}

/** Receives for all sockets in turn: nothing here outlives one synchronous call. */
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
   * of the same kind of body that came before it (an echo, or what was asked for).
   *
   * @param answers Kind of the messages to return
   * @throws {NetlinkError} If the kernel refuses the request
   */
  request<F extends Fields, R extends Rows, AF extends Fields, AR extends Rows>(
    type: MessageType<F, R>,
    request: Request<F, R>,
    answers?: MessageType<AF, AR>,
  ): Answer<AF, AR>[] {
    const sent = this.#send(type, request, Flag.Request | Flag.Ack);
    const decoded: Answer<AF, AR>[] = [];
    for (const reply of this.#replies(sent.sequence)) {
      if (reply.type === ControlType.Error) {
        throwUnlessSuccess(type, sent.body, decodeError(reply));
        return decoded;
      }
      if (answers !== undefined && reply.type === answers.type) {
        decoded.push(answers.decode(reply.body));
      }
    }
    return decoded;
  }

  /**
   * Sends several requests at once, and waits for the acknowledgement of the
   * last one that asks for it or for the first refusal.
   *
   * @throws {NetlinkError} If the kernel refuses one of them
   */
  requestAll(requests: readonly EncodedRequest[]): void {
    const first = this.#sequence + 1;
    const bytes = concat(
      requests.map(({ type, flags, body }) =>
        encodeMessage(type, flags, ++this.#sequence, body)
      ),
    );
    const last = requests.findLastIndex(({ flags }) => flags & Flag.Ack);
    if (bytes.length > SAFE_SEND_BYTES) this.#makeRoom(bytes.length);
    libc.send(this.#fd.number, bytes, 0);
    for (const reply of this.#received()) {
      const position = reply.sequence - first;
      const request = requests[position];
      if (request === undefined || reply.type !== ControlType.Error) continue;
      throwIfRefused(request, decodeError(reply));
      if (position === last) return;
    }
  }

  /**
   * Lists what the kernel has, starting again when it changed under way.
   *
   * @param answers Kind of the messages to return
   * @throws {NetlinkError} If the kernel refuses, or EINTR if the list keeps changing
   */
  dump<F extends Fields, R extends Rows, AF extends Fields, AR extends Rows>(
    type: MessageType<F, R>,
    request: Request<F, R>,
    answers: MessageType<AF, AR>,
  ): Answer<AF, AR>[] {
    for (let attempt = 0; attempt < DUMP_ATTEMPTS; attempt++) {
      const list = this.#dumpOnce(type, request, answers);
      if (list !== undefined) return list;
    }
    throw new NetlinkError(type.name, 4, {
      extAck: `the list changed during each of ${DUMP_ATTEMPTS} dumps`,
    });
  }

  #dumpOnce<
    F extends Fields,
    R extends Rows,
    AF extends Fields,
    AR extends Rows,
  >(
    type: MessageType<F, R>,
    request: Request<F, R>,
    answers: MessageType<AF, AR>,
  ): Answer<AF, AR>[] | undefined {
    const sent = this.#send(type, request, Flag.Request | Flag.Dump);
    const decoded: Answer<AF, AR>[] = [];
    // The mark may be on any one part, so it is collected over all of them.
    let flags = 0;
    for (const reply of this.#replies(sent.sequence)) {
      flags |= reply.flags & Flag.DumpInterrupted;
      if (reply.type === ControlType.Done || reply.type === ControlType.Error) {
        const verdict = reply.type === ControlType.Done
          ? decodeDone(reply)
          : decodeError(reply);
        throwUnlessSuccess(type, sent.body, verdict);
        break;
      }
      if (reply.type === answers.type) {
        decoded.push(answers.decode(reply.body));
      }
    }
    return flags & Flag.DumpInterrupted ? undefined : decoded;
  }

  #send<F extends Fields, R extends Rows>(
    type: MessageType<F, R>,
    request: Request<F, R>,
    flags: number,
  ): { sequence: number; body: Bytes } {
    const sequence = this.#sequence = (this.#sequence + 1) % 0x1_0000_0000;
    const body = type.encode(request);
    const bytes = encodeMessage(
      type.type,
      flags | (request.flags ?? 0),
      sequence,
      body,
    );
    libc.send(this.#fd.number, bytes, 0);
    return { sequence, body };
  }

  /** What is sent at once must fit into the socket's buffer as a whole. */
  #makeRoom(length: number): void {
    libc.setSocketOption(this.#fd.number, {
      level: SOL_SOCKET,
      name: SO_SNDBUFFORCE,
      value: length,
    });
  }

  /** Messages that answer one request; late answers to earlier ones are dropped. */
  *#replies(sequence: number): Generator<RawMessage> {
    for (const reply of this.#received()) {
      if (reply.sequence === sequence) yield reply;
    }
  }

  *#received(): Generator<RawMessage> {
    for (;;) yield* splitMessages(receive(this.#fd.number));
  }

  /** Closes the socket; a second call does nothing. */
  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
  }
}

/**
 * Prepares a socket. Once it is connected to the kernel, messages from other
 * sockets are refused: root in a user namespace may send to any port of the
 * network namespaces it owns, and could forge answers.
 *
 * Source: net/netlink/af_netlink.c `netlink_getsockbyportid`.
 */
function configure(fd: number): void {
  libc.connect(fd, KERNEL);
  for (
    // Strict checking is what makes the kernel honour a dump's filters.
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

/** Receives one datagram whole: its length is asked for before it is taken. */
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
      if (!(error instanceof SyscallError && error.errno === "EINTR")) {
        throw error;
      }
    }
  }
}

function throwUnlessSuccess<F extends Fields, R extends Rows>(
  type: MessageType<F, R>,
  body: Bytes,
  verdict: Verdict,
): void {
  const locate = (offset: number): string | undefined =>
    type.locate?.(body, offset);
  throwIfRefused({ name: type.name, locate }, verdict);
}

/** @throws {NetlinkError} Unless the verdict is success */
function throwIfRefused(
  { name, locate }: Pick<EncodedRequest, "name" | "locate">,
  { errno, extAck, offset }: Verdict,
): void {
  if (errno === 0) return;
  const attribute = offset === undefined
    ? undefined
    : locate(offset - messageHeader.size);
  throw new NetlinkError(name, errno, { extAck, attribute });
}
