/**
 * The end of an operation at any point of it.
 *
 * @module
 */

import { SyscallError } from "../../ffi/errno.ts";
import { NetlinkSocket } from "../../ffi/netlink/socket.ts";
import { intercept } from "./fault_injector.ts";

/** Methods by which an operation talks to the kernel. */
export type NetlinkMethod = "request" | "dump";

/**
 * Ends all that goes through netlink after some calls, as kill -9 does: nothing
 * is done from then on.
 */
export class Crash implements Disposable {
  readonly #stack = new DisposableStack();
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
    methods: readonly NetlinkMethod[] = ["request", "dump"],
  ) {
    this.#left = calls;
    for (const method of methods) {
      this.#stack.defer(
        intercept(NetlinkSocket.prototype, method, (_, work) => {
          this.#count();
          return work();
        }),
      );
    }
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
