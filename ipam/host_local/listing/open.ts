/**
 * Opening the listing of a network's directory, from the source that takes the
 * least time. Use it only while the directory is locked.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { CniError, ErrorCode } from "../../../base/error.ts";
import { unlessUnreachable } from "../../../base/files/io.ts";
import { fileIdOf } from "../../../base/files/same_file.ts";
import { CachedListings, type WatchDirectory } from "./cached_listings.ts";
import { type IndexedDirectory, readIndex, writeIndex } from "./lease_index.ts";
import { type Listing, ReadListing } from "./listing.ts";

/**
 * A directory up to this size, a block of most file systems, is always read whole: about
 * 200 leases. With fewer leases, a call takes longer to write the index than to read
 * them: with 40 leases, ADD takes a fifth longer, and DEL two thirds.
 */
const LARGE_BYTES = 4 * 1024;

/** A larger directory, with 15 000 leases or more, is not cached. */
const MOST_CACHED_BYTES = 512 * 1024;

/** Prefix of the files with the addresses that were allocated last. */
export const LAST_RESERVED = "last_reserved_ip.";

/** The listings that this process caches; undefined if it is short-lived. */
let cachedListings: CachedListings | undefined;

/**
 * Caches the listings of directories between calls, in a long-lived process, until
 * disposal.
 */
export function cacheListings(watchDirectory: WatchDirectory): Disposable {
  const cached = cachedListings = new CachedListings(watchDirectory);
  return {
    [Symbol.dispose](): void {
      if (cachedListings === cached) cachedListings = undefined;
      cached[Symbol.dispose]();
    },
  };
}

/** A file of the directory. */
export type ListedFile = Pick<Deno.DirEntry, "name" | "isFile" | "isSymlink">;

/** The directory that is listed. */
export interface ListedDirectory extends IndexedDirectory {
  /** The state of the directory when this call first read it. */
  readonly info: Deno.FileInfo;
  /** Number of files that this call could not read. */
  readonly unreadable: number;
  /** @throws {CniError} 5 if the directory cannot be read */
  readDirectory(): ListedFile[];
  /**
   * Reads a possible lease.
   *
   * @returns Undefined if it is no lease, or cannot be read
   * @throws {CniError} 5 if no file can be read now
   */
  readListed(file: ListedFile): string | undefined;
  /**
   * Reports whether a file is unfinished, and therefore not part of a listing. Removes
   * the unfinished file of a killed process.
   */
  sweep(name: string): boolean;
}

/**
 * Lists all files, with the content of each file that has the name of an address. A file
 * that cannot be read is listed without a content.
 *
 * @param need "quick", in a time that does not grow much with the number of files;
 *   "complete", without the index, for a caller that may end any lease; or "anew",
 *   because a listing was wrong
 * @throws {CniError} 5 if the directory cannot be read, or no lease
 */
export function openListing(
  directory: ListedDirectory,
  need: "quick" | "complete" | "anew",
): Listing {
  if (need === "anew") cachedListings?.forget(fileIdOf(directory.info));
  const cached = need === "anew" ? undefined : openCached(directory);
  if (cached !== undefined) return cached;
  const index = need === "quick" && isLarge(directory)
    ? readIndex(directory)
    : undefined;
  return index ?? readAll(directory, new ReadListing("files"));
}

/**
 * Writes the index of a large directory, unless it is up to date.
 *
 * @param isChanged Whether this call has changed the directory
 */
export function saveListing(
  directory: ListedDirectory,
  listing: Listing,
  isChanged: boolean,
): void {
  const needsIndex = listing.source === "files" ||
    listing.source === "index" && isChanged;
  if (!needsIndex || !isLarge(directory)) return;
  // The index would hide the content of a file that can be read again later.
  if (directory.unreadable === 0) writeIndex(directory, listing);
}

/** Reports whether reading all leases takes long. */
function isLarge({ info }: ListedDirectory): boolean {
  return info.size > LARGE_BYTES;
}

/** Updates the cached listing of a directory, if this process caches listings. */
function openCached(directory: ListedDirectory): Listing | undefined {
  if (cachedListings === undefined) return undefined;
  const { info, path } = directory, id = fileIdOf(info);
  if (info.size > MOST_CACHED_BYTES) {
    cachedListings.forget(id);
    return undefined;
  }
  const cached = cachedListings.read(path, id, (listing, changes) => {
    if (changes === undefined) readAll(directory, listing);
    for (const [name, isThere] of changes ?? []) {
      readChanged(directory, listing, name, isThere);
    }
  });
  // Nothing reports that a file can be read again.
  if (directory.unreadable > 0) cachedListings.forget(id);
  return cached;
}

function readChanged(
  directory: ListedDirectory,
  listing: Listing,
  name: string,
  isThere: boolean,
): void {
  const info = isThere
    ? unlessUnreachable(() => Deno.lstatSync(join(directory.path, name)))
    : undefined;
  if (info === undefined) listing.delete(name);
  else add(directory, listing, { name, ...info });
}

function readAll(directory: ListedDirectory, listing: Listing): Listing {
  const files = directory.readDirectory();
  for (const file of files) add(directory, listing, file);
  // A network without leases might have no other file that can be read.
  const isAnyRead = (): boolean =>
    [...listing.entries()].some(([, content]) => content !== undefined) ||
    files.some((file) =>
      file.name.startsWith(LAST_RESERVED) &&
      directory.readListed(file) !== undefined
    );
  // Several files fail, and no file can be read: the disk is faulty.
  if (directory.unreadable > 1 && !isAnyRead()) {
    const problem = `Cannot read any lease in "${directory.path}"`;
    throw new CniError(ErrorCode.IoFailure, problem);
  }
  return listing;
}

function add(
  directory: ListedDirectory,
  listing: Listing,
  file: ListedFile,
): void {
  const { name } = file;
  if (directory.sweep(name)) return;
  const mayBeLease = /^[\da-f.:]+$/.test(name);
  listing.set(name, mayBeLease ? directory.readListed(file) : undefined);
}
