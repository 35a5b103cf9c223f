/**
 * Requests that the kernel handles while this thread does something else.
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import { checkChange } from "../change_check.ts";
import { isErrno, type SyscallError } from "../errno.ts";
import * as libc from "../libc.ts";
import { receiveNow } from "./datagram.ts";
import { decodeError, NetlinkError } from "./error.ts";
import { ControlType, type RawMessage, splitMessages } from "./message.ts";
import { type EncodedRequest, isChange, refusalOf } from "./request.ts";

/** Source: include/uapi/asm-generic/errno-base.h. */
const ENOBUFS = 105;

/** How often to check whether a request on another thread could not be sent. */
const POLL_MS = 100;
/** Requests that the kernel handles on another thread. */
export class BackgroundRequests {
  readonly #fd: number;
  readonly #requests: readonly EncodedRequest[];
  readonly #first: number;
  readonly #refusals: (SyscallError | undefined)[];
  /** Resolves when the kernel has handled all requests. */
  readonly sent: PromiseLike<void>;
  #isSent = false;

  /** Sends the requests. Use `NetlinkSocket.sendInBackground()`. */
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
    if (requests.some(isChange)) checkChange();
    this.sent = libc.sendInBackground(fd, bytes).then(() => {
      this.#isSent = true;
    });
  }

  /** Waits until {@linkcode take} might return something. */
  wait(): PromiseLike<unknown> {
    return libc.waitReadable(this.#fd, POLL_MS);
  }

  /**
   * Receives the messages that have arrived, without waiting.
   *
   * @param onNotice Receives each notification, or undefined if the kernel had to
   * drop notifications
   * @returns The kernel's refusals, like `NetlinkSocket.requestEach()`; undefined if
   * the requests are not finished
   * @throws {NetlinkError} ENOBUFS if the requests or the answers are lost
   */
  take(
    onNotice: (notice: RawMessage | undefined) => void,
  ): readonly (SyscallError | undefined)[] | undefined {
    // Once the requests are sent, all answers have arrived.
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

  /** Receives a datagram if there is any. */
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
