/**
 * Netlink sockets: requests, answers and dumps.
 *
 * @module
 */

import { type Bytes, concat, type Fields } from "../../net/bytes.ts";
import { isErrno, SyscallError } from "../errno.ts";
import type { Fd } from "../fd.ts";
import * as libc from "../libc.ts";
import type { NetNs } from "../netns.ts";
import type { Rows } from "./attribute.ts";
import { BackgroundRequests } from "./background.ts";
import {
  dropAnswers,
  makeRoom,
  makeStrict,
  openSocket,
  receive,
  receiveNow,
  subscribe,
} from "./datagram.ts";
import {
  decodeDone,
  decodeError,
  NetlinkError,
  type Verdict,
} from "./error.ts";
import {
  ControlType,
  encodeMessage,
  Flag,
  type MessageType,
  type RawMessage,
  splitMessages,
} from "./message.ts";
import {
  acknowledgeLast,
  type Answer,
  decodeAnswers,
  during,
  type EncodedRequest,
  encodeRequest,
  refusalOf,
  type Request,
  throwIfRefused,
} from "./request.ts";

/** Source: include/uapi/asm-generic/errno-base.h. */
const EINTR = 4;

/** Sequence numbers have 32 bits; 0 is that of messages nobody asked for. */
const MAX_SEQUENCE = 0xffff_ffff;
/** Netlink families. Source: include/uapi/linux/netlink.h. */
export const Protocol = { Route: 0, Netfilter: 12 } as const;

/** How many requests are acknowledged together: the answers must fit the buffer. */
const MOST_AT_ONCE = 100;
/** How often a dump is tried while the list keeps changing. */
const DUMP_ATTEMPTS = 10, INCOMPLETE_DUMP_ATTEMPTS = 3;

/** Options of a dump. */
export interface DumpOptions {
  /**
   * Whether to accept, after a few tries, a list that changed while it was read.
   * Entries may be missing or listed twice.
   */
  readonly mayBeIncomplete?: boolean | undefined;
}

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
    return new NetlinkSocket(openSocket(netns, protocol));
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
    subscribe(this.#fd.number, group);
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
  sendInBackground(requests: readonly EncodedRequest[]): BackgroundRequests {
    const fd = this.#fd.number;
    const { bytes, first } = this.#encodeAll(requests.map(acknowledgeLast));
    makeRoom(fd, bytes.length);
    return new BackgroundRequests(fd, { requests, first, bytes });
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
      makeRoom(fd, bytes.length);
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
    dropAnswers(this.#fd.number);
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
    makeStrict(this.#fd.number);
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
