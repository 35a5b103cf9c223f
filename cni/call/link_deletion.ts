/**
 * Deletes links as a group: the kernel waits once per request, however many
 * links the request has.
 *
 * @module
 */

/** A link and where it is. */
export interface LinkLocation {
  /** Its index there. */
  readonly index: number;
  /** Path of its namespace. */
  readonly netns: string;
}

/** Work that must precede the deletion of a link. */
export interface Preparation {
  /**
   * Does it.
   *
   * @throws {Error} If it fails; the link is deleted all the same
   */
  readonly run: () => void;
  /** Links that make it unnecessary if they are deleted at the same time. */
  readonly unlessDeleted: readonly LinkLocation[];
}

/** A link that is to be deleted. */
export interface LinkToDelete extends LinkLocation {
  /** Its name, for errors. */
  readonly name: string;
  /** Steps that must precede its deletion. */
  readonly preparation?: Preparation | undefined;
}

/**
 * Deletes links in one go. Links that were already deleted are not an error.
 *
 * @throws {Error} If the kernel refuses; names the link. An AggregateError of
 *   several
 */
export type DeleteLinks = (links: readonly LinkToDelete[]) => void;

/** Deletes links, together with links of other plugins or calls. */
export interface LinkDeletion {
  /**
   * Deletes links now, together with the links that were left for later.
   *
   * @param deleteLinks Deletes them if nothing else does
   * @throws {Error} As {@linkcode DeleteLinks}
   */
  now(links: readonly LinkToDelete[], deleteLinks: DeleteLinks): Promise<void>;
  /**
   * Leaves links for later if more may follow. They are deleted before anything
   * that could depend on it: before a plugin runs as a process, and at the end
   * of the list.
   *
   * @param deleteLinks As of `now`
   * @throws {Error} If nothing follows, as {@linkcode DeleteLinks}
   */
  later(
    links: readonly LinkToDelete[],
    deleteLinks: DeleteLinks,
  ): Promise<void>;
}

/** For a plugin that is called alone: deletes all links together. */
export const unbatched: LinkDeletion = {
  now: async (links, deleteLinks) => await deleteLinks(links),
  later: async (links, deleteLinks) => await deleteLinks(links),
};

/** Deletes the links of all plugins of one list. */
export class ListDeletion implements LinkDeletion {
  readonly #outer: LinkDeletion;
  #left: readonly LinkToDelete[] = [];
  #deleteLinks: DeleteLinks = () => {};

  /** @param outer Deletes them, perhaps together with links of other lists */
  constructor(outer: LinkDeletion = unbatched) {
    this.#outer = outer;
  }

  /** Whether links are left for later. */
  get hasLeft(): boolean {
    return this.#left.length > 0;
  }

  async now(
    links: readonly LinkToDelete[],
    deleteLinks: DeleteLinks,
  ): Promise<void> {
    const all = [...links, ...this.#left];
    this.#left = [];
    if (all.length > 0) await this.#outer.now(all, deleteLinks);
  }

  later(
    links: readonly LinkToDelete[],
    deleteLinks: DeleteLinks,
  ): Promise<void> {
    this.#left = [...this.#left, ...links];
    this.#deleteLinks = deleteLinks;
    return Promise.resolve();
  }

  /**
   * Deletes what is left.
   *
   * @throws {Error} As {@linkcode DeleteLinks}
   */
  async finish(): Promise<void> {
    await this.now([], this.#deleteLinks);
  }
}
