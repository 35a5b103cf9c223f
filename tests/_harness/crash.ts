/**
 * The end of an operation at any point of it.
 *
 * @module
 */

import { SyscallError } from "../../ffi/errno.ts";
import { NetlinkSocket } from "../../ffi/netlink/socket.ts";
import { Collecting, intercept } from "../../testing/fault_injector.ts";

/** Methods by which an operation talks to the kernel. */
export type NetlinkMethod = "request" | "get" | "dump" | "requestEach";

/**
 * Ends all that goes through netlink after some calls, as kill -9 does: nothing
 * is done from then on.
 */
export class Crash implements Disposable {
  readonly #stack = new DisposableStack();
  readonly #collecting = this.#stack.use(new Collecting());
  #left: number;
  /** Whether the crash happened. */
  hasHappened = false;

  /**
   * Starts to count.
   *
   * @param calls How many of them are done
   * @param methods What counts as one, and fails from then on
   */
  constructor(
    calls: number,
    methods: readonly NetlinkMethod[] = [
      "request",
      "get",
      "dump",
      "requestEach",
    ],
  ) {
    this.#left = calls;
    for (const method of methods) {
      this.#stack.defer(
        intercept(NetlinkSocket.prototype, method, (args, work) => {
          if (method === "requestEach") return this.#cutShort(args, work);
          if (this.#collecting.isOn) return work();
          this.#count();
          return work();
        }),
      );
    }
  }

  /** The kernel gets as many of the requests as are left. */
  #cutShort(args: unknown[], work: () => unknown): unknown {
    const [requests] = args as [unknown[]];
    const sent = Math.min(this.#left, requests.length);
    this.#left -= sent;
    args[0] = requests.slice(0, sent);
    const refusals = sent > 0 ? work() : [];
    if (sent < requests.length) this.#count();
    return refusals;
  }

  #count(): void {
    if (this.#left-- > 0) return;
    this.hasHappened = true;
    throw new SyscallError("the process is dead", 5);
  }

  /** Puts everything back. */
  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}
