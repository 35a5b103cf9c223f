/**
 * Lists of links that other programs change while this process reads them.
 *
 * @module
 */

import { Flag, type RawMessage } from "../../ffi/netlink/message.ts";
import { observeNetlink } from "../../ffi/netlink/observer.ts";

/**
 * Has lists of links lack a link, as if it had been passed over because the list
 * changed, until disposal: the kernel then says that the dump was interrupted.
 *
 * @param missing The link's name
 * @param count How many lists; all if undefined
 */
export function interruptLinkDumps(
  missing: string,
  count = Infinity,
): Disposable {
  let left = count;
  observeNetlink(({ requests, isDump }, work) => {
    const outcome = work();
    const isOfLinks = requests.some(({ name }) => name === "RTM_GETLINK");
    if (!isDump || !isOfLinks || left-- <= 0) return outcome;
    const replies = outcome as RawMessage[];
    return replies.filter(({ body }) => !hasText(body, missing))
      .map((reply) => ({
        ...reply,
        flags: reply.flags | Flag.DumpInterrupted,
      })) as typeof outcome;
  });
  return { [Symbol.dispose]: () => observeNetlink(undefined) };
}

/** Does something once, right after the next list of links; until disposal. */
export function afterLinkDump(work: () => void): Disposable {
  let isDone = false;
  observeNetlink(({ requests, isDump }, exchange) => {
    const outcome = exchange();
    const isOfLinks = requests.some(({ name }) => name === "RTM_GETLINK");
    if (isDump && isOfLinks && !isDone) {
      isDone = true;
      work();
    }
    return outcome;
  });
  return { [Symbol.dispose]: () => observeNetlink(undefined) };
}

function hasText(body: Uint8Array, text: string): boolean {
  return new TextDecoder("latin1").decode(body).includes(`${text}\0`);
}
