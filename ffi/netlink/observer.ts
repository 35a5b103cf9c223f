/**
 * Lets traces observe the netlink requests of this process.
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

/** Runs an exchange, and returns its result or throws its error. */
export type NetlinkObserver = <T>(exchange: Exchange, work: () => T) => T;

/** Undefined unless this process is traced. */
let observer: NetlinkObserver | undefined;

/**
 * Sets the observer of all further exchanges; undefined removes it.
 */
export function observeNetlink(next: NetlinkObserver | undefined): void {
  observer = next;
}

/** Sends requests and receives the answers, and reports both to the observer. */
export function observed<T>(
  requests: readonly EncodedRequest[],
  work: () => T,
  isDump = false,
): T {
  return observer === undefined ? work() : observer({ requests, isDump }, work);
}
