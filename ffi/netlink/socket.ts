/**
 * Netlink sockets: requests, answers and dumps.
 *
 * @module
 */

import type { Bytes, Fields } from "../../net/bytes.ts";
import { isErrno, SyscallError } from "../errno.ts";
import type { Fd } from "../file/fd.ts";
import type { NetNs } from "../netns.ts";
import type { Rows } from "./attribute.ts";
import { BackgroundRequests } from "./background.ts";
import { sendAll, sendEach } from "./batch.ts";
import { type AnswerOptions, Connection } from "./connection.ts";
import {
  enlargeSendBuffer,
  findNetnsCookie,
  listenToAllNsids,
  makeStrict,
  openSocket,
  receiveNow,
  subscribe,
} from "./datagram.ts";
import { NetlinkError } from "./error.ts";
import {
  Flag,
  type MessageType,
  type RawMessage,
  splitMessages,
} from "./message.ts";
import { observed } from "./observer.ts";
import {
  acknowledgeLast,
  type Answer,
  decodeAnswers,
  type EncodedRequest,
  encodeRequest,
  type Request,
} from "./request.ts";

/** Source: include/uapi/asm-generic/errno-base.h. */
const EINTR = 4;

/** Netlink families. Source: include/uapi/linux/netlink.h. */
export const Protocol = { Route: 0, Netfilter: 12 } as const;

/** How often a dump is tried while the list keeps changing. */
const DUMP_ATTEMPTS = 10, INCOMPLETE_DUMP_ATTEMPTS = 3;

/** A list of which each attempt might have received only a part. */
export interface Listing<T> {
  /** If the list is not complete, entries may be missing or listed twice. */
  readonly items: readonly T[];
  /**
   * Whether the list did not change during the dump, so that objects it lacks do not
   * exist.
   */
  readonly isComplete: boolean;
}

/** A netlink socket that stays in the namespace where it was opened. */
export class NetlinkSocket implements Disposable {
  readonly #fd: Fd;
  readonly #connection: Connection;
  #isStrict = false;
  /** Collects requests instead of sending them. */
  #collected: EncodedRequest[] | undefined;

  private constructor(fd: Fd, mostAnswers: number) {
    this.#fd = fd;
    this.#connection = new Connection(fd, mostAnswers);
  }

  /**
   * Opens a socket inside a namespace.
   *
   * @param protocol One of {@linkcode Protocol}
   * @param mostAnswers How many objects a list can contain. Requests for longer lists
   * fail with EMSGSIZE; the socket must then be closed
   * @throws {SyscallError} If the namespace cannot be entered, or EPROTONOSUPPORT
   */
  static open(
    netns: NetNs,
    protocol: number,
    mostAnswers = Infinity,
  ): NetlinkSocket {
    return new NetlinkSocket(openSocket(netns, protocol), mostAnswers);
  }

  /**
   * Sends a request, waits for its acknowledgement and returns the messages that came
   * before it: an echo, or the requested objects.
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
    const replies = this.#ask(encoded, Flag.Ack);
    return decodeAnswers(replies, answers);
  }

  /**
   * Requests a single object. Needs no acknowledgement: the object is the answer.
   *
   * @param answers The type of the object's message. The kernel must always send this
   * message, or refuse
   * @throws {NetlinkError} If the request cannot be sent or the kernel refuses it
   */
  get<F extends Fields, R extends Rows, AF extends Fields, AR extends Rows>(
    type: MessageType<F, R>,
    request: Request<F, R>,
    answers: MessageType<AF, AR>,
  ): Answer<AF, AR> {
    const encoded = encodeRequest(type, request);
    const replies = this.#ask(encoded, 0, { answer: answers.type });
    const [answer] = decodeAnswers(replies, answers);
    if (answer !== undefined) return answer;
    throw new Error(`Cannot read ${encoded.describe()}: the kernel sent none`);
  }

  /**
   * Makes changes with a single send(2). The kernel carries out each change, even if
   * it refuses an earlier change.
   *
   * ```ts ignore
   * const [refusal] = socket.attemptAll([
   *   () => rtnl.address.add(address),
   *   () => rtnl.link.set(index, { isUp: true }),
   * ]);
   * ```
   *
   * @param changes Each makes a single {@linkcode request} without an answer
   * @returns The kernel's refusals, in the order of the changes; undefined for a
   * change that succeeded. If the requests cannot be sent, every change has that
   * error
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
      throw new Error(
        "Cannot batch the changes: one of them is not a single request",
      );
    });
    try {
      return this.requestEach(requests);
    } catch (error) {
      if (!(error instanceof SyscallError)) throw error;
      return requests.map(() => error);
    }
  }

  /**
   * Sends several requests together. The kernel carries out each request, even if it
   * refuses an earlier request.
   *
   * @returns The kernel's refusals, in the order of the requests; undefined for a
   * request that succeeded
   * @throws {NetlinkError} If the requests cannot be sent
   */
  requestEach(
    requests: readonly EncodedRequest[],
  ): (SyscallError | undefined)[] {
    return observed(requests, () => sendEach(this.#connection, requests));
  }

  /**
   * Returns the cookie of the socket's namespace, which is unique until the machine
   * reboots, whereas inodes are reused immediately. Returns undefined before Linux
   * 5.14.
   */
  get netnsCookie(): bigint | undefined {
    return findNetnsCookie(this.#fd.number);
  }

  /**
   * Subscribes to notifications.
   *
   * @param group The kernel's number of the group
   * @param unreadBytes Room for notifications that have not been received yet
   */
  subscribe(group: number, unreadBytes?: number): void {
    subscribe(this.#fd.number, group, unreadBytes);
  }

  /**
   * Receives the notifications of other namespaces as well, if they have an nsid in the
   * socket's namespace.
   *
   * @throws {SyscallError} EPERM without CAP_NET_BROADCAST
   */
  listenToAllNsids(): void {
    listenToAllNsids(this.#fd.number);
  }

  /**
   * Drops the notifications that have arrived.
   *
   * @returns Whether notifications had arrived or were lost
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
   * Receives the notifications of a type that have arrived. Notifications can be lost
   * if they come faster than they are received.
   */
  receiveNotices<F extends Fields, R extends Rows>(
    type: MessageType<F, R>,
  ): Answer<F, R>[] {
    const found: RawMessage[] = [];
    for (;;) {
      try {
        const messages = this.receiveNotice();
        if (messages === undefined) return decodeAnswers(found, type);
        found.push(...messages);
      } catch (error) {
        if (!isErrno(error, "ENOBUFS")) throw error;
      }
    }
  }

  /**
   * Receives the next notification, which consists of at least one message.
   *
   * @returns Undefined if none has arrived
   * @throws {SyscallError} ENOBUFS if earlier notifications were lost
   */
  receiveNotice(): RawMessage[] | undefined {
    const bytes = receiveNow(this.#fd.number);
    return bytes && splitMessages(bytes);
  }

  /** The socket's descriptor, to wait until notifications arrive. */
  get descriptor(): number {
    return this.#fd.number;
  }

  /**
   * Starts {@linkcode requestEach} on another thread. The socket must neither be used
   * nor closed until the requests are sent.
   */
  sendInBackground(requests: readonly EncodedRequest[]): BackgroundRequests {
    return observed(requests, () => {
      const fd = this.#fd.number;
      const { bytes, first } = this.#connection.encode(
        requests.map(acknowledgeLast),
      );
      enlargeSendBuffer(fd, bytes.length);
      return new BackgroundRequests(fd, { requests, first, bytes });
    });
  }

  /**
   * Sends several requests together. Waits for the acknowledgement of the last
   * request that asks for an acknowledgement, or for the first refusal.
   *
   * @returns The kernel's echoes of the requests
   * @throws {NetlinkError} If the requests cannot be sent or the kernel refuses a
   * request
   */
  requestAll(requests: readonly EncodedRequest[]): RawMessage[] {
    if (requests.length === 0) return [];
    return observed(requests, () => sendAll(this.#connection, requests));
  }

  /** Drops unread answers, to make room for answers to the next request. */
  dropAnswers(): void {
    this.#connection.dropAnswers();
  }

  /**
   * Lists the kernel's objects, and starts again if the list changes during the dump.
   * All parts are received before any is decoded: the kernel writes each part when
   * the previous part is received, so work in between makes a change more likely.
   *
   * @param answers The type of the messages to return
   * @param isMeant Reports whether to return the message with a body; all are
   * returned if undefined. Other messages are dropped as they arrive. Must be fast
   * @throws {NetlinkError} If the request cannot be sent or the kernel refuses
   * it; EINTR if the list keeps changing
   */
  dump<F extends Fields, R extends Rows, AF extends Fields, AR extends Rows>(
    type: MessageType<F, R>,
    request: Request<F, R>,
    answers: MessageType<AF, AR>,
    isMeant?: (body: Bytes) => boolean,
  ): Answer<AF, AR>[] {
    const encoded = encodeDump(type, request);
    const { replies, isComplete } = this.#dump(
      encoded,
      DUMP_ATTEMPTS,
      keepOf(answers, isMeant),
    );
    if (isComplete) return decodeAnswers(replies, answers);
    throw new NetlinkError(encoded.name, EINTR, {
      object: encoded.describe(),
      extAck: `the list changed during each of ${DUMP_ATTEMPTS} dumps`,
    });
  }

  /**
   * Lists the kernel's objects as {@linkcode dump}, but accepts, after a few tries, a
   * list that changed while it was read.
   *
   * @param answers The type of the messages to return
   * @param isMeant As in {@linkcode dump}
   * @throws {NetlinkError} If the request cannot be sent or the kernel refuses it
   */
  dumpSome<
    F extends Fields,
    R extends Rows,
    AF extends Fields,
    AR extends Rows,
  >(
    type: MessageType<F, R>,
    request: Request<F, R>,
    answers: MessageType<AF, AR>,
    isMeant?: (body: Bytes) => boolean,
  ): Listing<Answer<AF, AR>> {
    const { replies, isComplete } = this.#dump(
      encodeDump(type, request),
      INCOMPLETE_DUMP_ATTEMPTS,
      keepOf(answers, isMeant),
    );
    return { items: decodeAnswers(replies, answers), isComplete };
  }

  /** Receives a dump, at most a few times if the list changes during each dump. */
  #dump(
    request: EncodedRequest,
    attempts: number,
    isMeant: (reply: RawMessage) => boolean,
  ): { readonly replies: RawMessage[]; readonly isComplete: boolean } {
    this.#beStrict();
    for (let attempt = 1;; attempt++) {
      let isComplete = true;
      const keep = (reply: RawMessage): boolean => {
        if (isMeant(reply)) return true;
        if (isInterrupted(reply)) isComplete = false;
        return false;
      };
      const replies = this.#ask(request, Flag.Dump, { keep });
      // Any part can have the flag.
      if (replies.some(isInterrupted)) isComplete = false;
      if (isComplete || attempt === attempts) return { replies, isComplete };
    }
  }

  /** Makes the kernel apply the filters of dumps. */
  #beStrict(): void {
    if (this.#isStrict) return;
    makeStrict(this.#fd.number);
    this.#isStrict = true;
  }

  /** @see {@linkcode Connection.ask} */
  #ask(
    request: EncodedRequest,
    flags: number,
    options?: AnswerOptions,
  ): RawMessage[] {
    return observed(
      [request],
      () => this.#connection.ask(request, flags, options),
      flags === Flag.Dump,
    );
  }

  /** Closes the socket; a second call does nothing. */
  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
  }
}

function encodeDump<F extends Fields, R extends Rows>(
  type: MessageType<F, R>,
  request: Request<F, R>,
): EncodedRequest {
  const describe = (): string => type.describe?.(request) ?? "list";
  return { ...encodeRequest(type, request), describe };
}

/** Returns which answers of a dump to keep until all have arrived. */
function keepOf(
  { type: wanted }: { readonly type: number },
  isMeant: ((body: Bytes) => boolean) | undefined,
): (reply: RawMessage) => boolean {
  return ({ type, body }) => type === wanted && (isMeant?.(body) ?? true);
}

function isInterrupted({ flags }: RawMessage): boolean {
  return (flags & Flag.DumpInterrupted) !== 0;
}
