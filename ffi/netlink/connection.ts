/**
 * The messages of a netlink socket: requests with their sequence numbers, and the
 * answers to them.
 *
 * @module
 */

import { checkChange } from "../change_check.ts";
import { type Bytes, concat } from "../../net/bytes.ts";
import type { Fd } from "../file/fd.ts";
import * as libc from "../libc.ts";
import { dropAnswers, enlargeSendBuffer, receive } from "./datagram.ts";
import { decodeDone, decodeError, NetlinkError } from "./error.ts";
import {
  ControlType,
  encodeMessage,
  type RawMessage,
  splitMessages,
} from "./message.ts";
import {
  during,
  type EncodedRequest,
  isChange,
  throwIfRefused,
} from "./request.ts";

/**
 * Sequence numbers have 32 bits; 0 is the sequence number of unsolicited messages.
 */
const MAX_SEQUENCE = 0xffff_ffff;
/** Source: include/uapi/asm-generic/errno.h. */
const EMSGSIZE = 90;

/** Which answers to receive. */
export interface AnswerOptions {
  /** The type of the last message; undefined to wait for the verdict. */
  readonly answer?: number | undefined;
  /**
   * Returns whether to keep an answer; all are kept if undefined. Called as an answer
   * arrives.
   */
  readonly keep?: ((reply: RawMessage) => boolean) | undefined;
}

/** Requests that are sent in one piece. */
export interface Batch {
  /** The first request. */
  readonly begin: EncodedRequest;
  /** The first request's sequence number; the other requests have the next numbers. */
  readonly first: number;
}

/** A socket's descriptor, and the last sequence number. */
export class Connection {
  readonly #fd: Fd;
  readonly #mostAnswers: number;
  #sequence = 0;

  /**
   * @param fd Borrowed, not closed
   * @param mostAnswers The limit of answers to a request
   */
  constructor(fd: Fd, mostAnswers: number) {
    this.#fd = fd;
    this.#mostAnswers = mostAnswers;
  }

  /**
   * Sends a request, and receives everything up to the verdict on it.
   *
   * @returns The answers to the request, undecoded
   * @throws {NetlinkError} If the request cannot be sent or the kernel refuses it;
   * EMSGSIZE if there are more answers than the limit
   */
  ask(
    request: EncodedRequest,
    flags: number,
    { answer, keep }: AnswerOptions = {},
  ): RawMessage[] {
    const sequence = this.#sequence = this.#sequence % MAX_SEQUENCE + 1;
    const { type, body } = request;
    const bytes = encodeMessage(type, request.flags | flags, sequence, body);
    if (isChange(request)) checkChange();
    during(request, () => libc.send(this.#fd.number, bytes, 0));
    const replies: RawMessage[] = [];
    for (;;) {
      for (const reply of this.receive(request)) {
        // Late answers to earlier requests are dropped.
        if (reply.sequence !== sequence) continue;
        if (keep?.(reply) ?? true) replies.push(reply);
        if (reply.type === ControlType.Done) {
          throwIfRefused(request, decodeDone(reply));
          return replies;
        }
        if (reply.type === ControlType.Error) {
          throwIfRefused(request, decodeError(reply));
          return replies;
        }
        if (reply.type === answer) return replies;
      }
      if (replies.length > this.#mostAnswers) {
        throw new NetlinkError(request.name, EMSGSIZE, {
          object: request.describe(),
          extAck: `more than ${this.#mostAnswers} answers`,
        });
      }
    }
  }

  /** Sends several requests together. */
  send(requests: readonly EncodedRequest[]): Batch {
    const { bytes, ...batch } = this.encode(requests);
    if (requests.some(isChange)) checkChange();
    during(batch.begin, () => {
      enlargeSendBuffer(this.#fd.number, bytes.length);
      libc.send(this.#fd.number, bytes, 0);
    });
    return batch;
  }

  /** Assigns sequence numbers to several requests. */
  encode(
    requests: readonly EncodedRequest[],
  ): Batch & { readonly bytes: Bytes } {
    const [begin] = requests;
    if (begin === undefined) {
      throw new Error("Cannot send an empty list of requests");
    }
    if (this.#sequence + requests.length > MAX_SEQUENCE) this.#sequence = 0;
    const first = this.#sequence + 1;
    const bytes = concat(
      requests.map(({ type, flags, body }) =>
        encodeMessage(type, flags, ++this.#sequence, body)
      ),
    );
    return { bytes, first, begin };
  }

  /** Drops unread answers, to make room for answers to the next request. */
  dropAnswers(): void {
    dropAnswers(this.#fd.number);
  }

  /** Receives a datagram, which contains at least one message. */
  receive(request: EncodedRequest): RawMessage[] {
    return splitMessages(during(request, () => receive(this.#fd.number)));
  }
}
