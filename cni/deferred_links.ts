/**
 * Links that plugins of one list leave to each other to delete.
 *
 * @module
 */

import type { MaybePromise } from "./plugin.ts";
import { tryAll } from "./rollback.ts";

/** A link of the host that is of no use any more. */
export interface DeferredLink {
  /** Index in the host's namespace. */
  readonly index: number;
  /** Its name there. */
  readonly name: string;
  /** Deletes it by itself. Succeeds if it is gone already. */
  readonly remove: () => MaybePromise<void>;
}

/**
 * Links whose deletion can wait for that of another one. When it deletes links
 * the kernel waits until no processor uses them any more, some 15 ms, and for
 * several at once it does so once. So a plugin that runs in one process with the
 * others of its list need not delete a link itself: it defers that, and whoever
 * deletes one after it takes the deferred ones along.
 *
 * What nobody takes is deleted before anything else is done that could depend on
 * it: before a plugin runs as a process, and at the end of the list.
 */
export class DeferredLinks {
  #links: DeferredLink[] = [];

  /** Whether there are none. */
  get isEmpty(): boolean {
    return this.#links.length === 0;
  }

  /** Leaves a link to be deleted. */
  defer(link: DeferredLink): void {
    this.#links.push(link);
  }

  /** Hands over the links, to be deleted by the caller at once. */
  takeAll(): readonly DeferredLink[] {
    return this.#links.splice(0);
  }

  /**
   * Deletes the links one by one.
   *
   * @throws What failed; an AggregateError if it is several
   */
  async removeAll(): Promise<void> {
    await tryAll(
      Object.fromEntries(
        this.takeAll().map(({ name, remove }) => [
          `delete "${name}"`,
          async () => await remove(),
        ]),
      ),
    );
  }
}
