/**
 * Deletes links, several links as a group.
 *
 * @module
 */

import type { SyscallError } from "../errno.ts";
import type { BackgroundRequests } from "../netlink/background.ts";
import { type EncodedRequest, encodeRequest } from "../netlink/request.ts";
import { AF_UNSPEC } from "./constants.ts";
import { delLink, linkHeader, newLink } from "./link_message.ts";

/**
 * Groups of links to delete begin here, because administrators do not use such
 * numbers.
 */
export const LEAST_GROUP = 2 ** 31;

/** Returns a group that is almost certainly unused. 0 is the default group of all links. */
function randomGroup(): number {
  const [random = 0] = crypto.getRandomValues(new Uint32Array(1));
  return (random | LEAST_GROUP) >>> 0;
}

/**
 * A deletion of links that has started. The socket must stay open until it ends.
 */
export class StartedDeletion {
  readonly #requests: BackgroundRequests;

  /**
   * Follows a deletion.
   *
   * @param requests The requests that delete the links
   */
  constructor(requests: BackgroundRequests) {
    this.#requests = requests;
  }

  /** Resolves when the kernel has handled the request; then the socket is free. */
  get ended(): PromiseLike<void> {
    return this.#requests.sent;
  }

  /** Waits until {@linkcode take} might return something. */
  wait(): PromiseLike<unknown> {
    return this.#requests.wait();
  }

  /**
   * Receives the notifications that have arrived, without waiting.
   *
   * @param onGone Receives the index of each deleted link, or undefined if the
   *   kernel had to drop such notifications
   * @returns Whether all links are deleted and the kernel has finished
   * @throws {NetlinkError} EOPNOTSUPP if a link cannot be deleted; then all links
   * stay in the group. ENOBUFS if the outcome is unknown
   */
  take(onGone: (index: number | undefined) => void): boolean {
    const refusals = this.#requests.take((notice) => {
      if (notice === undefined) return onGone(undefined);
      if (notice.type !== delLink.type) return;
      const { family, index } = linkHeader.decode(notice.body);
      // A bridge reports the loss of a port in the same way.
      if (family === AF_UNSPEC) onGone(index);
    });
    if (refusals === undefined) return false;
    throwUnlessMissing(refusals);
    return true;
  }
}

/**
 * Encodes the deletion of links: several are put into a group, and the group is
 * deleted.
 *
 * Source: net/core/rtnetlink.c `rtnl_group_dellink`.
 */
export function deletionOf(indexes: readonly number[]): EncodedRequest[] {
  const [only, ...others] = indexes;
  if (others.length === 0) {
    return [encodeRequest(delLink, { header: { index: only ?? 0 } })];
  }
  const attributes = { group: randomGroup() };
  return [
    ...indexes.map((index) =>
      encodeRequest(newLink, { header: { index }, attributes })
    ),
    encodeRequest(delLink, { header: {}, attributes }),
  ];
}

/** Throws the first refusal, unless it means that a link does not exist. */
export function throwUnlessMissing(
  refusals: readonly (SyscallError | undefined)[],
): void {
  const refusal = refusals.find((one) =>
    one !== undefined && one.errno !== "ENODEV"
  );
  if (refusal !== undefined) throw refusal;
}
