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
 * Deletes links together. Links that were already deleted are not an error.
 *
 * @throws {Error} If the kernel refuses; names the link. An AggregateError of
 *   several
 */
export type DeleteLinks = (links: readonly LinkToDelete[]) => void;

/** A link that can be deleted together with links of other plugins. */
export interface DeletableLink extends LinkToDelete {
  /** Deletes links together. All links have the same function. */
  readonly deleteTogether: DeleteLinks;
}

/** Deletes links, together with links of other plugins or calls. */
export interface LinkDeletion {
  /**
   * Deletes links now, together with the links that were left for later.
   *
   * @throws {Error} As {@linkcode DeleteLinks}
   */
  now(links: readonly DeletableLink[]): Promise<void>;
  /**
   * Leaves links for later if more may follow. They are deleted before anything
   * that could depend on it: before a plugin runs as a process, and at the end
   * of the list.
   *
   * @throws {Error} If nothing follows, as {@linkcode DeleteLinks}
   */
  later(links: readonly DeletableLink[]): Promise<void>;
}

async function deleteAll(links: readonly DeletableLink[]): Promise<void> {
  await links[0]?.deleteTogether(links);
}

/** For a plugin that is called alone: deletes all links together. */
export const unbatched: LinkDeletion = { now: deleteAll, later: deleteAll };

/** Deletes the links of all plugins of one list. */
export class ListDeletion implements LinkDeletion {
  readonly #outer: LinkDeletion;
  #left: readonly DeletableLink[] = [];

  /** @param outer Deletes them, perhaps together with links of other lists */
  constructor(outer: LinkDeletion = unbatched) {
    this.#outer = outer;
  }

  /** Whether links are left for later. */
  get hasLeft(): boolean {
    return this.#left.length > 0;
  }

  async now(links: readonly DeletableLink[]): Promise<void> {
    const all = [...links, ...this.#left];
    this.#left = [];
    if (all.length > 0) await this.#outer.now(all);
  }

  later(links: readonly DeletableLink[]): Promise<void> {
    this.#left = [...this.#left, ...links];
    return Promise.resolve();
  }

  /**
   * Deletes what is left.
   *
   * @throws {Error} As {@linkcode DeleteLinks}
   */
  async finish(): Promise<void> {
    await this.now([]);
  }
}
