/**
 * The listings that a long-lived process caches between calls.
 *
 * @module
 */

import { type Listing, ReadListing } from "./listing.ts";

/** Follows the changes of a directory. */
export interface Watch extends Disposable {
  /**
   * Takes the names that have changed, and whether a file of each name exists.
   *
   * @returns Undefined if names might be missing
   */
  takeChanges(): ReadonlyMap<string, boolean> | undefined;
}

/**
 * Starts to follow the changes of a directory.
 *
 * @returns Undefined if the directory cannot be followed
 */
export type WatchDirectory = (path: string) => Watch | undefined;

/** Reads names of a directory into a listing; all names if undefined. */
export type ReadNames = (
  listing: Listing,
  changes?: ReadonlyMap<string, boolean>,
) => void;

interface CachedListing {
  readonly watch: Watch;
  readonly listing: Listing;
}

/** Maximum number of directories that are followed. */
const MOST_DIRECTORIES = 64;

/**
 * The listings of a long-lived process. The changes of all programs are followed, so a
 * listing is correct as soon as the directory is locked.
 */
export class CachedListings implements Disposable {
  readonly #watchDirectory: WatchDirectory;
  /** By device and inode, because a path can lead to a different directory later. */
  readonly #cached = new Map<string, CachedListing>();

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
    const cached = this.#cached.get(id);
    const changes = cached?.watch.takeChanges();
    if (cached === undefined || changes === undefined) {
      this.forget(id);
      return this.#begin(path, id, readNames);
    }
    try {
      readNames(cached.listing, changes);
    } catch (error) {
      this.forget(id);
      throw error;
    }
    // The entry that was used last moves to the end of the map.
    this.#cached.delete(id);
    this.#cached.set(id, cached);
    return cached.listing;
  }

  #begin(path: string, id: string, readNames: ReadNames): Listing | undefined {
    const watch = this.#watchDirectory(path);
    if (watch === undefined) return undefined;
    using stack = new DisposableStack();
    stack.use(watch);
    // Only after the start of the watch, so that no change is missed.
    const listing = new ReadListing("memory");
    readNames(listing);
    stack.move();
    this.#cached.set(id, { watch, listing });
    const [oldest = ""] = this.#cached.keys();
    if (this.#cached.size > MOST_DIRECTORIES) this.forget(oldest);
    return listing;
  }

  /** Drops the listing of a directory. */
  forget(id: string): void {
    this.#cached.get(id)?.watch[Symbol.dispose]();
    this.#cached.delete(id);
  }

  /** Ends all watches. */
  [Symbol.dispose](): void {
    for (const id of [...this.#cached.keys()]) this.forget(id);
  }
}
