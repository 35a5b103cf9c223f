/**
 * Links that the plugins of one list delete together.
 *
 * @module
 */

import { tryAll } from "./rollback.ts";

/** A link on the host that is to be deleted. */
export interface DeferredLink {
  /** Index in the host's namespace. */
  readonly index: number;
  /** Its name there. */
  readonly name: string;
  /** Deletes this link alone. Succeeds if it is already gone. */
  readonly remove: () => void | Promise<void>;
}

/**
 * Links whose deletion is deferred. When the kernel deletes links it waits about
 * 15 ms until no CPU uses them, once per request however many links the request
 * has. So a plugin that shares its process with the rest of its list defers the
 * deletion, and the next plugin that deletes a link includes the deferred ones.
 *
 * Links that no plugin takes are deleted before anything that could depend on it:
 * before a plugin runs as a process, and at the end of the list.
 */
export class DeferredLinks {
  #links: DeferredLink[] = [];

  /** Defers the deletion of a link. */
  defer(link: DeferredLink): void {
    this.#links.push(link);
  }

  /** Takes all links; the caller must delete them at once. */
  takeAll(): readonly DeferredLink[] {
    return this.#links.splice(0);
  }

  /**
   * Deletes the links one by one.
   *
   * @throws The only failure, or an AggregateError of several
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
