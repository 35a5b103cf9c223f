/**
 * What a network's directory has, and the listings that a process which stays keeps
 * between calls.
 *
 * @module
 */

/** Files of a directory by name, with the content of possible leases. */
export interface Listing {
  /** Returns the content of a possible lease; undefined for other names. */
  get(name: string): string | undefined;
  /** Reports whether there is a file of that name. */
  has(name: string): boolean;
  /** Lists all files, with the content of possible leases. */
  entries(): Iterable<[name: string, content: string | undefined]>;
  /** Lists the names of the leases with a content. */
  withContent(content: string): string[];
  /** Adds a file, or changes its content. */
  set(name: string, content: string | undefined): void;
  /** Removes a file. */
  delete(name: string): void;
}

/** A listing that this process has read. */
export class ReadListing implements Listing {
  readonly #contents = new Map<string, string | undefined>();
  /** The names by content; undefined for a listing that is asked once or twice. */
  readonly #names: Map<string, Set<string>> | undefined;

  /** @param isKept Whether it is asked again and again */
  constructor(isKept = false) {
    if (isKept) this.#names = new Map();
  }

  get(name: string): string | undefined {
    return this.#contents.get(name);
  }

  has(name: string): boolean {
    return this.#contents.has(name);
  }

  entries(): Iterable<[name: string, content: string | undefined]> {
    return this.#contents;
  }

  withContent(content: string): string[] {
    if (this.#names !== undefined) return [...this.#names.get(content) ?? []];
    return [...this.#contents].filter((entry) => entry[1] === content)
      .map(([name]) => name);
  }

  set(name: string, content: string | undefined): void {
    this.delete(name);
    this.#contents.set(name, content);
    if (this.#names === undefined || content === undefined) return;
    const names = this.#names.get(content);
    if (names === undefined) this.#names.set(content, new Set([name]));
    else names.add(name);
  }

  delete(name: string): void {
    const content = this.#contents.get(name);
    this.#contents.delete(name);
    if (content === undefined) return;
    const names = this.#names?.get(content);
    names?.delete(name);
    if (names?.size === 0) this.#names?.delete(content);
  }
}

/** Follows the changes of a directory. */
export interface Watch extends Disposable {
  /**
   * Takes the names that have changed, and whether there is a file of that name
   * now.
   *
   * @returns Undefined if some may be missing
   */
  takeChanges(): ReadonlyMap<string, boolean> | undefined;
}

/**
 * Begins to follow the changes of a directory.
 *
 * @returns Undefined if it cannot be followed
 */
export type WatchDirectory = (path: string) => Watch | undefined;

/** Reads names of a directory into a listing; all names if undefined. */
export type ReadNames = (
  listing: Listing,
  changes?: ReadonlyMap<string, boolean>,
) => void;

interface Kept {
  readonly watch: Watch;
  readonly listing: Listing;
}

/** How many directories are followed at most. */
const MOST_DIRECTORIES = 64;

/**
 * The listings of a process that stays. Every program that changes a directory is
 * followed, so a listing is right as soon as the directory is locked.
 */
export class KeptListings implements Disposable {
  readonly #watchDirectory: WatchDirectory;
  /** By the directory's device and inode: a path may lead to another one. */
  readonly #kept = new Map<string, Kept>();

  /** Starts without listings. */
  constructor(watchDirectory: WatchDirectory) {
    this.#watchDirectory = watchDirectory;
  }

  /**
   * Brings the listing of a directory up to date.
   *
   * @param path Path of the directory, which is locked
   * @param id Its device and inode
   * @returns Undefined if its changes cannot be followed
   * @throws {CniError} 5 if it cannot be read
   */
  read(path: string, id: string, readNames: ReadNames): Listing | undefined {
    const kept = this.#kept.get(id);
    const changes = kept?.watch.takeChanges();
    if (kept === undefined || changes === undefined) {
      this.forget(id);
      return this.#begin(path, id, readNames);
    }
    try {
      readNames(kept.listing, changes);
    } catch (error) {
      this.forget(id);
      throw error;
    }
    // The one that was used last becomes the last one.
    this.#kept.delete(id);
    this.#kept.set(id, kept);
    return kept.listing;
  }

  #begin(path: string, id: string, readNames: ReadNames): Listing | undefined {
    const watch = this.#watchDirectory(path);
    if (watch === undefined) return undefined;
    using stack = new DisposableStack();
    stack.use(watch);
    // After the watch has begun: what changes from now on is in both, or later.
    const listing = new ReadListing(true);
    readNames(listing);
    stack.move();
    this.#kept.set(id, { watch, listing });
    const [oldest = ""] = this.#kept.keys();
    if (this.#kept.size > MOST_DIRECTORIES) this.forget(oldest);
    return listing;
  }

  /** Drops the listing of a directory. */
  forget(id: string): void {
    this.#kept.get(id)?.watch[Symbol.dispose]();
    this.#kept.delete(id);
  }

  /** Ends all watches. */
  [Symbol.dispose](): void {
    for (const id of [...this.#kept.keys()]) this.forget(id);
  }
}
