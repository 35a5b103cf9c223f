/**
 * Deletes links for many calls together, in a resident process.
 *
 * A link disappears soon after the request: its name is free, and its addresses,
 * routes and queues are deleted. The kernel acknowledges the request about 15 ms
 * later, when no CPU uses the link. A process that exits must wait for this, but a
 * resident process need not.
 *
 * @module
 */

import { throwAll } from "../../../base/rollback.ts";
import type {
  LinkDeletion,
  LinkToDelete,
} from "../../../cni/call/link_deletion.ts";
import {
  type ChangeCheck,
  currentCheck,
  withChangeCheck,
} from "../../../ffi/change_check.ts";
import { isSystemError } from "../../../ffi/errno.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { deleteLinks, prepareLinks } from "./delete_links.ts";

/** How many links are deleted as a group. */
const MOST_AT_ONCE = 100;

/** A link to delete, and its caller. */
interface Removal {
  readonly link: LinkToDelete;
  readonly check: ChangeCheck | undefined;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Deletes links on other threads. Every caller continues when its links have been
 * deleted. Links that arrive in the meantime are deleted as a group.
 *
 * ```ts ignore
 * await using remover = new LinkRemover(hostNetns);
 * await dispatch(plugin, { env, stdin, invoker, hostNetns, linkDeletion: remover });
 * ```
 *
 * In unusual cases (no descriptor, no answer, a link that cannot be deleted), it
 * deletes each link separately, like other processes.
 */
export class LinkRemover implements LinkDeletion, AsyncDisposable {
  readonly #hostNetns: string;
  #waiting: Removal[] = [];
  /**
   * Whether the kernel is busy with a group whose links are not deleted yet.
   */
  #isRemoving = false;
  #isClosed = false;
  readonly #underWay = new Set<Promise<void>>();

  /** @param hostNetns Path of the host's namespace, the same for all calls */
  constructor(hostNetns: string) {
    this.#hostNetns = hostNetns;
  }

  /** Returns how many groups the kernel has not acknowledged yet. */
  get unacknowledged(): number {
    return this.#underWay.size;
  }

  /** Equal to `now`, because concurrent calls are grouped anyway. */
  async later(links: readonly LinkToDelete[]): Promise<void> {
    await this.now(links);
  }

  /**
   * Deletes links, and waits until they are deleted. Links that were already
   * deleted are not an error.
   *
   * @throws {Error} If the kernel refuses; names the link. An AggregateError of
   * several failures
   */
  async now(links: readonly LinkToDelete[]): Promise<void> {
    if (this.#isClosed) return deleteLinks(links);
    const failures = prepareLinks(links);
    const check = currentCheck();
    const inSandboxes: Removal[] = [];
    const removals = links.map((link) => {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const isHosts = link.netns === this.#hostNetns;
      const removal = { link, check, resolve, reject };
      (isHosts ? this.#waiting : inSandboxes).push(removal);
      return promise;
    });
    // A sandbox has few links, and no other calls delete links there.
    for (
      const [netns, there] of Map.groupBy(
        inSandboxes,
        ({ link }) => link.netns,
      )
    ) this.#remove(there, netns, () => {});
    // This lets concurrent calls add their links first.
    queueMicrotask(() => this.#removeNext());
    const outcomes = await Promise.allSettled(removals);
    for (const outcome of outcomes) {
      if (outcome.status === "rejected") failures.push(outcome.reason);
    }
    throwAll(failures, "Several links cannot be deleted");
  }

  #removeNext(): void {
    if (this.#isRemoving || this.#waiting.length === 0) return;
    const removals = this.#waiting.splice(0, MOST_AT_ONCE);
    this.#isRemoving = true;
    this.#remove(removals, this.#hostNetns, () => {
      this.#isRemoving = false;
      this.#removeNext();
    });
  }

  #remove(
    removals: readonly Removal[],
    netns: string,
    onAllGone: () => void,
  ): void {
    const removal = new Group(removals).remove(netns, onAllGone);
    this.#underWay.add(removal);
    removal.finally(() => this.#underWay.delete(removal));
  }

  /**
   * Waits for the deletions that have started. Later links are deleted like in other
   * processes.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    for (this.#removeNext(); this.#underWay.size > 0;) {
      await Promise.all(this.#underWay);
    }
  }
}

/** Links that are deleted as a group. */
class Group {
  readonly #left: Map<number, Removal[]>;

  constructor(removals: readonly Removal[]) {
    this.#left = Map.groupBy(removals, ({ link }) => link.index);
  }

  /**
   * Deletes the links, except links of calls that are no longer permitted to change
   * anything.
   *
   * @param onAllGone Called once, when all links are deleted or have failed
   */
  async remove(netns: string, onAllGone: () => void): Promise<void> {
    const settle = (index: number, failure?: unknown): void => {
      const removals = this.#left.get(index) ?? [];
      if (!this.#left.delete(index)) return;
      for (const { resolve, reject } of removals) {
        if (failure === undefined) resolve();
        else reject(failure);
      }
      if (this.#left.size === 0) onAllGone();
    };
    this.#leaveOutForbidden();
    if (this.#left.size === 0) return onAllGone();
    try {
      using rtnl = Rtnl.open(netns);
      // The links belong to several calls, each of which was checked.
      const deletion = withChangeCheck(
        undefined,
        () => rtnl.link.startDeletion([...this.#left.keys()]),
      );
      const takeNews = (): boolean =>
        deletion.take((index) => {
          if (index !== undefined) settle(index);
          else for (const gone of this.#listGone(netns)) settle(gone);
        });
      try {
        while (!takeNews()) await deletion.wait();
      } finally {
        await deletion.ended;
      }
      for (const index of this.#left.keys()) settle(index);
    } catch (error) {
      const failure = isSystemError(error) ? undefined : error;
      for (const [index, [removal]] of this.#left) {
        settle(index, failure ?? (removal && failureOf(removal)));
      }
    }
  }

  /** Rejects the removals of calls that are no longer permitted to change anything. */
  #leaveOutForbidden(): void {
    for (const [index, removals] of this.#left) {
      const allowed = removals.filter(isAllowed);
      if (allowed.length > 0) this.#left.set(index, allowed);
      else this.#left.delete(index);
    }
  }

  /** Lists the links that were deleted without a notification. */
  #listGone(netns: string): number[] {
    using rtnl = Rtnl.open(netns);
    return [...this.#left.keys()].filter((index) =>
      rtnl.link.find(index) === undefined
    );
  }
}

/**
 * Reports whether a call is still permitted to delete its link; rejects the removal
 * otherwise.
 */
function isAllowed({ check, reject }: Removal): boolean {
  try {
    check?.();
    return true;
  } catch (error) {
    reject(error);
    return false;
  }
}

/** Deletes a prepared link separately, and returns the error if that fails. */
function failureOf({ link, check }: Removal): unknown {
  const alone = [{ ...link, preparation: undefined }];
  try {
    withChangeCheck(check, () => deleteLinks(alone));
    return undefined;
  } catch (error) {
    return error;
  }
}
