/**
 * Netlink sockets: requests, answers and dumps.
 *
 * @module
 */

import {
  type Bytes,
  concat,
  type Fields,
  struct,
  type StructValue,
  u16,
  u32,
  u64,
} from "../../net/bytes.ts";
import { isErrno, SyscallError } from "../errno.ts";
import { Fd } from "../fd.ts";
import * as libc from "../libc.ts";
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

/** Sequence numbers have 32 bits; 0 is that of messages nobody asked for. */
const MAX_SEQUENCE = 0xffff_ffff;
/** Source: include/linux/socket.h, include/linux/net.h. */
const AF_NETLINK = 16, SOCK_RAW = 3, SOCK_CLOEXEC = 0o2000000;
const MSG_TRUNC = 0x20, MSG_DONTWAIT = 0x40;
/** Source: include/uapi/asm-generic/socket.h. */
const SOL_SOCKET = 1, SO_SNDBUF = 7, SO_RCVBUF = 8, SO_RCVTIMEO = 20;
const SO_SNDBUFFORCE = 32, SO_RCVBUFFORCE = 33;
/** Source: include/uapi/linux/netlink.h. */
const SOL_NETLINK = 270;
const NETLINK_ADD_MEMBERSHIP = 1,
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
const EINTR = 4, EMSGSIZE = 90, ENOBUFS = 105;

/** Netlink families. Source: include/uapi/linux/netlink.h. */
export const Protocol = { Route: 0, Netfilter: 12 } as const;

/** Source: include/uapi/linux/time_types.h `struct timeval`. */
const timeval = struct({ seconds: u64, microseconds: u64 });
/** How long to wait for an answer before it counts as lost. */
const RECEIVE_TIMEOUT_SECONDS = 10n;
/**
 * Larger than any message: a dump comes in parts of at most 32 KiB, and one
 * object has a few attributes of at most 64 KiB. Memory that no message has
 * reached yet costs nothing.
 */
const RECEIVE_BUFFER_BYTES = 1 << 20;
/** How many requests are acknowledged together: the answers must fit the buffer. */
const MOST_AT_ONCE = 100;
/** Room for notifications, which come faster than a busy thread reads them. */
const NOTIFICATION_BYTES = 4 << 20;
/** How often to look whether a request on another thread could not be sent. */
const ASIDE_POLL_MS = 100;
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

/** Asks for an acknowledgement of the last request only: it ends the answers. */
export function acknowledgeLast(
  request: EncodedRequest,
  index: number,
  { length }: readonly EncodedRequest[],
): EncodedRequest {
  if (index < length - 1) return request;
  return { ...request, flags: request.flags | Flag.Ack };
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
  #isStrict = false;
  /** Collects requests instead of sending them. */
  #collected: EncodedRequest[] | undefined;

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
    if (this.#collected !== undefined) {
      this.#collected.push(encoded);
      return [];
    }
    const { verdict, replies } = this.#ask(encoded, Flag.Ack);
    throwIfRefused(encoded, verdict);
    return decodeAnswers(replies, answers);
  }

  /**
   * Requests one object. Needs no acknowledgement: the object is the answer.
   *
   * @param answers The type of the object's message. The kernel must always
   * send one, or refuse
   * @throws {NetlinkError} If the request cannot be sent or the kernel refuses it
   */
  get<F extends Fields, R extends Rows, AF extends Fields, AR extends Rows>(
    type: MessageType<F, R>,
    request: Request<F, R>,
    answers: MessageType<AF, AR>,
  ): Answer<AF, AR> {
    const encoded = encodeRequest(type, request);
    const { verdict, replies } = this.#ask(encoded, 0, answers.type);
    throwIfRefused(encoded, verdict);
    const [answer] = decodeAnswers(replies, answers);
    if (answer !== undefined) return answer;
    throw new Error(`Cannot read ${encoded.describe()}: the kernel sent none`);
  }

  /**
   * Makes changes with a single send(2). The kernel carries out each of them,
   * even if it refuses an earlier one.
   *
   * ```ts ignore
   * const [refusal] = socket.attemptAll([
   *   () => rtnl.address.add(address),
   *   () => rtnl.link.set(index, { isUp: true }),
   * ]);
   * ```
   *
   * @param changes Each makes one {@linkcode request} without an answer
   * @returns What the kernel refuses, in the order of the changes; undefined
   * for a change that it has made. If the requests cannot be sent, every change
   * has that error
   */
  attemptAll(changes: readonly (() => void)[]): (SyscallError | undefined)[] {
    const requests = changes.map((change): EncodedRequest => {
      this.#collected = [];
      try {
        change();
        const [request, ...others] = this.#collected;
        if (request !== undefined && others.length === 0) return request;
      } finally {
        this.#collected = undefined;
      }
      throw new Error("Cannot make changes together: one is not one request");
    });
    try {
      return this.requestEach(requests);
    } catch (error) {
      if (!(error instanceof SyscallError)) throw error;
      return requests.map(() => error);
    }
  }

  /**
   * Sends several requests at once. The kernel carries out each of them, even if
   * it refuses an earlier one.
   *
   * @returns What the kernel refuses, in the order of the requests; undefined
   * for a request that it has carried out
   * @throws {NetlinkError} If the requests cannot be sent
   */
  requestEach(
    requests: readonly EncodedRequest[],
  ): (SyscallError | undefined)[] {
    const refusals: (SyscallError | undefined)[] = [];
    for (let start = 0; start < requests.length; start += MOST_AT_ONCE) {
      const group = requests.slice(start, start + MOST_AT_ONCE);
      refusals.push(...this.#requestGroup(group));
    }
    return refusals;
  }

  #requestGroup(
    requests: readonly EncodedRequest[],
  ): (SyscallError | undefined)[] {
    const { first, begin } = this.#sendAll(requests.map(acknowledgeLast));
    const refusals = requests.map((): SyscallError | undefined => undefined);
    for (;;) {
      for (const reply of this.#receive(begin)) {
        const position = reply.sequence - first;
        const request = requests[position];
        if (request === undefined || reply.type !== ControlType.Error) continue;
        refusals[position] = refusalOf(request, decodeError(reply));
        if (position === requests.length - 1) return refusals;
      }
    }
  }

  /**
   * Subscribes to notifications.
   *
   * @param group The kernel's number of the group
   */
  subscribe(group: number): void {
    const fd = this.#fd.number;
    setBuffer(fd, [SO_RCVBUFFORCE, SO_RCVBUF], NOTIFICATION_BYTES);
    const name = NETLINK_ADD_MEMBERSHIP;
    libc.setSocketOption(fd, { level: SOL_NETLINK, name, value: group });
  }

  /**
   * Drops the notifications that have arrived.
   *
   * @returns Whether there were any, or some were lost
   */
  takeNotices(): boolean {
    let found = false;
    for (;;) {
      try {
        if (receiveNow(this.#fd.number) === undefined) return found;
      } catch (error) {
        if (!isErrno(error, "ENOBUFS")) throw error;
      }
      found = true;
    }
  }

  /**
   * Starts the same as {@linkcode requestEach} on another thread. The socket
   * must not be used otherwise, nor closed, until the requests are sent.
   */
  startAside(requests: readonly EncodedRequest[]): Aside {
    const fd = this.#fd.number;
    const { bytes, first } = this.#encodeAll(requests.map(acknowledgeLast));
    if (bytes.length > SAFE_SEND_BYTES) makeRoom(fd, bytes.length);
    return new Aside(fd, { requests, first, bytes });
  }

  /**
   * Sends several requests at once. Waits for the acknowledgement of the last
   * request that asks for one, or for the first refusal.
   *
   * @throws {NetlinkError} If the requests cannot be sent or the kernel refuses
   * one
   */
  requestAll(requests: readonly EncodedRequest[]): void {
    if (requests.length === 0) return;
    const last = requests.findLastIndex(({ flags }) => flags & Flag.Ack);
    const { first, begin } = this.#sendAll(requests);
    for (;;) {
      for (const reply of this.#receiveFirst(begin)) {
        const position = reply.sequence - first;
        const request = requests[position];
        if (request === undefined || reply.type !== ControlType.Error) continue;
        const verdict = decodeError(reply);
        if (verdict.errno !== 0) this.dropAnswers();
        throwIfRefused(request, verdict);
        if (position === last) return;
      }
    }
  }

  /** @returns The first request, and its sequence number */
  #sendAll(requests: readonly EncodedRequest[]): Omit<Encoded, "bytes"> {
    const { bytes, ...encoded } = this.#encodeAll(requests);
    const fd = this.#fd.number;
    during(encoded.begin, () => {
      if (bytes.length > SAFE_SEND_BYTES) makeRoom(fd, bytes.length);
      libc.send(fd, bytes, 0);
    });
    return encoded;
  }

  #encodeAll(requests: readonly EncodedRequest[]): Encoded {
    const [begin] = requests;
    if (begin === undefined) throw new Error("Cannot send no requests");
    if (this.#sequence + requests.length > MAX_SEQUENCE) this.#sequence = 0;
    const first = this.#sequence + 1;
    const bytes = concat(
      requests.map(({ type, flags, body }) =>
        encodeMessage(type, flags, ++this.#sequence, body)
      ),
    );
    return { bytes, first, begin };
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
  dropAnswers(): void {
    const buffer = new Uint8Array(1);
    for (;;) {
      try {
        libc.recv(this.#fd.number, buffer, MSG_DONTWAIT);
      } catch (error) {
        if (isErrno(error, "EAGAIN")) return;
        // Some did not fit.
        if (!isErrno(error, "ENOBUFS", "EINTR")) throw error;
      }
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
    this.#beStrict();
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

  /** Makes the kernel honour the filters of dumps. */
  #beStrict(): void {
    if (this.#isStrict) return;
    const name = NETLINK_GET_STRICT_CHK;
    libc.setSocketOption(this.#fd.number, {
      level: SOL_NETLINK,
      name,
      value: 1,
    });
    this.#isStrict = true;
  }

  /**
   * Sends a request, and receives everything up to the verdict on it.
   *
   * @param answer The type of message that is the last one; undefined to wait
   * for the verdict
   */
  #ask(request: EncodedRequest, flags: number, answer?: number): Outcome {
    const sequence = this.#sequence = this.#sequence % MAX_SEQUENCE + 1;
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
        if (reply.type === answer) return { verdict: ACCEPTED, replies };
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

/** Requests that the kernel handles on another thread. */
export class Aside {
  readonly #fd: number;
  readonly #requests: readonly EncodedRequest[];
  readonly #first: number;
  readonly #refusals: (SyscallError | undefined)[];
  /** Resolves when the kernel has handled all requests. */
  readonly sent: PromiseLike<void>;
  #isSent = false;

  /** Sends the requests. Use {@linkcode NetlinkSocket.startAside}. */
  constructor(
    fd: number,
    { requests, first, bytes }: {
      readonly requests: readonly EncodedRequest[];
      readonly first: number;
      readonly bytes: Bytes;
    },
  ) {
    this.#fd = fd;
    this.#requests = requests;
    this.#first = first;
    this.#refusals = requests.map(() => undefined);
    this.sent = libc.sendAside(fd, bytes).then(() => {
      this.#isSent = true;
    });
  }

  /** Waits until there may be something to take. */
  wait(): PromiseLike<unknown> {
    return libc.waitReadable(this.#fd, ASIDE_POLL_MS);
  }

  /**
   * Takes what has arrived, without waiting.
   *
   * @param onNotice Receives each notification, or undefined if the kernel had
   * to drop some
   * @returns What the kernel refuses, as of {@linkcode NetlinkSocket.requestEach};
   * undefined if it is not finished
   * @throws {NetlinkError} ENOBUFS if the requests or the answers are lost
   */
  take(
    onNotice: (notice: RawMessage | undefined) => void,
  ): readonly (SyscallError | undefined)[] | undefined {
    // Once the requests are sent, all answers are there.
    const isLast = this.#isSent;
    const last = this.#requests.length - 1;
    for (let bytes; (bytes = this.#receive(onNotice)) !== undefined;) {
      for (const message of splitMessages(bytes)) {
        const position = message.sequence - this.#first;
        const request = this.#requests[position];
        if (request === undefined || message.type !== ControlType.Error) {
          onNotice(message);
          continue;
        }
        this.#refusals[position] = refusalOf(request, decodeError(message));
        if (position === last) return this.#refusals;
      }
    }
    if (!isLast) return undefined;
    throw new NetlinkError(this.#requests[last]?.name ?? "", ENOBUFS);
  }

  /** Receives one datagram if there is one. */
  #receive(onNotice: (notice: undefined) => void): Bytes | undefined {
    for (;;) {
      try {
        return receiveNow(this.#fd);
      } catch (error) {
        if (!isErrno(error, "ENOBUFS")) throw error;
        onNotice(undefined);
      }
    }
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
  const option = { level: SOL_NETLINK, name: NETLINK_EXT_ACK, value: 1 };
  libc.setSocketOption(fd, option);
}

/**
 * Enlarges the send buffer, which must hold everything that is sent at once.
 * Only CAP_NET_ADMIN in the machine's own user namespace may exceed the limit
 * `net.core.wmem_max`; other processes get as much as it allows.
 */
function makeRoom(fd: number, bytes: number): void {
  setBuffer(fd, [SO_SNDBUFFORCE, SO_SNDBUF], bytes);
}

/** @param names The options, first the one that needs the privilege */
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
 * Receives one whole datagram. The kernel answers before send(2) returns, so
 * there is nothing to wait for; if it ever answers later, this waits.
 */
function receive(fd: number): Bytes {
  const bytes = receiveNow(fd);
  if (bytes !== undefined) return bytes;
  const value = timeval.encode({ seconds: RECEIVE_TIMEOUT_SECONDS });
  const option = { level: SOL_SOCKET, name: SO_RCVTIMEO, value };
  libc.setSocketOptionBytes(fd, option);
  return receiveWith(fd, MSG_TRUNC);
}

/** Receives one whole datagram if there is one. */
function receiveNow(fd: number): Bytes | undefined {
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

const ACCEPTED: Verdict = { errno: 0, extAck: "", offset: undefined };

/** Requests in one piece. */
interface Encoded {
  readonly bytes: Bytes;
  /** The first request. */
  readonly begin: EncodedRequest;
  /** Its sequence number; the others' follow. */
  readonly first: number;
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
function throwIfRefused(request: EncodedRequest, verdict: Verdict): void {
  const refusal = refusalOf(request, verdict);
  if (refusal !== undefined) throw refusal;
}

function refusalOf(
  { name, describe, locate }: EncodedRequest,
  { errno, extAck, offset }: Verdict,
): NetlinkError | undefined {
  if (errno === 0) return undefined;
  const attribute = offset === undefined
    ? undefined
    : locate(offset - messageHeader.size);
  const object = describe();
  return new NetlinkError(name, errno, { object, extAck, attribute });
}
