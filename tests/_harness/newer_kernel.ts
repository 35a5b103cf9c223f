/**
 * A kernel that reports more than this one.
 *
 * @module
 */

import { NetlinkSocket } from "../../ffi/netlink/socket.ts";
import { intercept } from "../../testing/fault_injector.ts";

/** A number that no attribute of rtnetlink has yet. */
const FUTURE_ATTRIBUTE = 1000;

/** Has every entry of every list come with one more attribute, until it is disposed of. */
export function simulateNewerKernel(): Disposable {
  const stack = new DisposableStack();
  stack.defer(intercept(NetlinkSocket.prototype, "dump", (_args, work) => {
    const answers = work() as { attributes: { unknown?: unknown[] } }[];
    const added = { type: FUTURE_ATTRIBUTE, bytes: new Uint8Array(4) };
    return answers.map(({ attributes, ...answer }) => {
      const unknown = [...attributes.unknown ?? [], added];
      return { ...answer, attributes: { ...attributes, unknown } };
    });
  }));
  return stack;
}
