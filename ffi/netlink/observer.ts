/**
 * Where traces see what the sockets of this process send.
 *
 * @module
 */

import type { EncodedRequest } from "./request.ts";

/** Requests that are sent together. */
export interface Exchange {
  readonly requests: readonly EncodedRequest[];
  /** Whether the request is for a list. */
  readonly isDump: boolean;
}

/** Has an exchange happen, and returns or throws what it does. */
export type NetlinkObserver = <T>(exchange: Exchange, work: () => T) => T;

/** Undefined unless this process is traced. */
let observer: NetlinkObserver | undefined;

/**
 * Has an observer see all exchanges from now on; undefined if there is none.
 */
export function observeNetlink(next: NetlinkObserver | undefined): void {
  observer = next;
}

/** Sends requests and receives the answers, before the observer's eyes. */
export function observed<T>(
  requests: readonly EncodedRequest[],
  work: () => T,
  isDump = false,
): T {
  return observer === undefined ? work() : observer({ requests, isDump }, work);
}
