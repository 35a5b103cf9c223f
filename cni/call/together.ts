/**
 * Work that costs less if it is done together, such as deleting links: the
 * kernel waits once per request, however many links the request has.
 *
 * @module
 */

import { throwAll } from "./rollback.ts";

/**
 * Does some work for all items, in one go if possible.
 *
 * @throws If it fails for an item, after trying all of them
 */
export type Work<Item> = (items: readonly Item[]) => void | Promise<void>;

/** Does work of several plugins, or of several calls, together. */
export interface Together {
  /**
   * Does work now, with what others have left for later.
   *
   * @throws If the work fails
   */
  now<Item>(work: Work<Item>, items: readonly Item[]): Promise<void>;
  /**
   * Leaves work for later if more of its kind may follow. It is done before
   * anything that could depend on it: before a plugin runs as a process, and at
   * the end of the list.
   *
   * @throws If nothing follows and the work fails
   */
  later<Item>(work: Work<Item>, items: readonly Item[]): Promise<void>;
}

/** For a plugin that is called alone: does everything at once. */
export const alone: Together = {
  now: async (work, items) => await work(items),
  later: async (work, items) => await work(items),
};

/** Work that the plugins of one list do together. */
export class ListWork implements Together {
  readonly #outer: Together;
  readonly #left = new Map<Work<never>, unknown[]>();

  /** @param outer Does the work, perhaps together with that of other lists */
  constructor(outer: Together = alone) {
    this.#outer = outer;
  }

  async now<Item>(work: Work<Item>, items: readonly Item[]): Promise<void> {
    const all = [...items, ...this.#leftFor(work)];
    this.#left.delete(work);
    if (all.length > 0) await this.#outer.now(work, all);
  }

  later<Item>(work: Work<Item>, items: readonly Item[]): Promise<void> {
    this.#left.set(work, [...this.#leftFor(work), ...items]);
    return Promise.resolve();
  }

  #leftFor<Item>(work: Work<Item>): Item[] {
    return (this.#left.get(work) ?? []) as Item[];
  }

  /**
   * Does what is left.
   *
   * @throws The only failure, or an AggregateError of several
   */
  async finish(): Promise<void> {
    const failures: unknown[] = [];
    for (const work of [...this.#left.keys()]) {
      await this.now(work, []).catch((error) => failures.push(error));
    }
    throwAll(failures, `${failures.length} kinds of work failed`);
  }
}
