/**
 * Finding leases in a folder, however many there are.
 *
 * The folder is the truth, and other programs may change it whenever they have
 * the lock. To read all of it takes a time that grows with the leases; so where
 * there are many, an {@linkcode OwnerIndex} says which files to read. The folder
 * is signed, which tells whether the index knows all leases: a file that comes
 * or goes by another program undoes the signature. Then
 *
 * - DEL, CHECK and GC read the folder, and make the index anew;
 * - ADD does so too unless the folder is large. In a large one it believes the
 *   index, where at least the leases are that this plugin made.
 *
 * @module
 */

import { withIoFailure } from "../../cni/io_failure.ts";
import { findSignature, signFolder } from "./folder_signature.ts";
import { containerOf } from "./lease.ts";
import type { LeaseFolder, Listing } from "./lease_folder.ts";
import type { IndexEntry, OwnerIndex } from "./owner_index.ts";

/** With more leases than this an index is kept. */
const MANY_LEASES = 64;
/** A folder without an index is read by ADD up to this size: 200 leases or more. */
const LARGE_FOLDER_BYTES = 8 * 1024;

/** What is known of a folder while its lock is held. */
export class LeaseLookup {
  readonly #folder: LeaseFolder;
  readonly #index: OwnerIndex;
  #listing: Listing | undefined;
  #isIndexed: boolean | undefined;
  #isLarge: boolean | undefined;
  #isChanged = false;

  /** Begins to look; nothing is read yet. */
  constructor(folder: LeaseFolder, index: OwnerIndex) {
    this.#folder = folder;
    this.#index = index;
  }

  /**
   * Lists the whole folder; read once, since the lock keeps it as it is.
   *
   * @throws {CniError} 5 if it cannot be read
   */
  listAll(): Listing {
    return this.#listing ??= this.#folder.readAll();
  }

  /**
   * Lists the whole folder if that does not take long.
   *
   * @throws {CniError} 5 if it cannot be read
   */
  listIfSmall(): Listing | undefined {
    return this.#goesByIndex() ? undefined : this.listAll();
  }

  /**
   * Lists all leases of a container, and maybe some of others.
   *
   * @throws {CniError} 5 if they cannot be read
   */
  listOf(containerId: string): Listing {
    return this.#isComplete() ? this.#lookUp(containerId) : this.listAll();
  }

  /**
   * Lists what is known of a container's leases without reading a large folder.
   *
   * @throws {CniError} 5 if they cannot be read
   */
  listKnownOf(containerId: string): Listing {
    return this.#goesByIndex() ? this.#lookUp(containerId) : this.listAll();
  }

  #lookUp(containerId: string): Listing {
    const addresses = this.#index.addressesOf(containerId);
    return new Map(
      addresses.map((address) => [address, this.#folder.read(address)]),
    );
  }

  /** Says whether all leases are in the index. */
  #isComplete(): boolean {
    return this.#isIndexed ??= withIoFailure(
      `read the lease folder "${this.#folder.path}"`,
      () => {
        const signature = findSignature(this.#folder.path);
        return signature !== undefined && signature === this.#index.signature;
      },
    );
  }

  /** Says whether to ask the index, be it complete or not. */
  #goesByIndex(): boolean {
    if (this.#listing !== undefined) return false;
    if (this.#isComplete()) return true;
    return this.#isLarge ??= isLarge(this.#folder.path);
  }

  /** Takes note of a change that leaves the leases as they are. */
  noteChange(): void {
    this.#isChanged = true;
  }

  /** Takes note of a lease that was made. */
  noteAdded(address: string, content: string): void {
    this.#isChanged = true;
    if (!this.#goesByIndex()) this.#listing?.set(address, content);
    else this.#expect(this.#index.add(entryOf(address, content)));
  }

  /** Takes note of a lease that was ended. */
  noteRemoved(address: string, content: string): void {
    this.#isChanged = true;
    if (!this.#goesByIndex()) this.#listing?.delete(address);
    else this.#expect(this.#index.remove(entryOf(address, content)));
  }

  /** What could not be noted makes the index one that does not know all. */
  #expect(isNoted: boolean): void {
    this.#isIndexed &&= isNoted;
  }

  /** Leaves an index for the next call, if it will be of use. Never throws. */
  keepIndex(): void {
    try {
      if (this.#listing !== undefined) this.#indexAll(this.#listing);
      if (!this.#isIndexed || !this.#isChanged) return;
      this.#index.sign(signFolder(this.#folder.path));
    } catch {
      // Without an index everything works, and takes longer.
    }
  }

  #indexAll(listing: Listing): void {
    const entries = [...listing].flatMap(([address, content]) =>
      content ? [entryOf(address, content)] : []
    );
    this.#isIndexed = entries.length > MANY_LEASES &&
      this.#index.replaceAll(entries);
    this.#isChanged = true;
  }
}

function isLarge(path: string): boolean {
  return Deno.statSync(path).size > LARGE_FOLDER_BYTES;
}

function entryOf(address: string, content: string): IndexEntry {
  return { containerId: containerOf(content), address };
}
