/**
 * The files of one network: the layout of its folder, and changes that no other
 * program ever sees half-done.
 *
 * The layout is the Go plugin's, and both plugins may use a folder at a time:
 *
 * - `lock`: empty; flock(2) on it guards everything else
 * - `10.1.2.3`, `2001:db8::5`: a lease; holds `<container ID>\r\n<interface>`
 *   (only the container ID if a very old plugin wrote it)
 * - `last_reserved_ip.<i>`: the last address handed out from range set i
 * - `unfinished`: one of these while it is written; left only by a plugin that
 *   was killed meanwhile, and then meaningless
 *
 * All other files are foreign and left alone.
 *
 * Source: containernetworking/plugins
 * plugins/ipam/host-local/backend/disk/backend.go.
 *
 * @module
 */

import { join } from "@std/path/posix";
import {
  readTextFile,
  removeQuietly,
  unlessUnreachable,
  withIoFailure,
} from "../../cni/files/io.ts";
import { Draft } from "./draft.ts";

/** Name of the lock file. */
export const LOCK_FILE = "lock";
/** Not an address, so no program mistakes it for a lease. */
const UNFINISHED_FILE = "unfinished";

/** A folder up to this size is always read whole: some 250 to 400 leases. */
const LARGE_FOLDER_BYTES = 8 * 1024;

/**
 * Returns the name of the file with the last address handed out from a range
 * set.
 */
export function lastReservedName(rangeSet: number): string {
  return `last_reserved_ip.${rangeSet}`;
}

/** Files of a folder by name, with the content of possible leases. */
export type Listing = ReadonlyMap<string, string | undefined>;

/** The folder of a network. Hold the lock to change it. */
export class LeaseFolder implements Disposable {
  /** Path of the folder. */
  readonly path: string;
  #draft: Draft | undefined;
  #listing: Map<string, string | undefined> | undefined;
  #isLarge: boolean | undefined;

  /** Names the folder, which need not exist. */
  constructor(dataDir: string, network: string) {
    this.path = join(dataDir, network);
  }

  /** Returns the path of a file in the folder. */
  pathOf(name: string): string {
    return join(this.path, name);
  }

  /**
   * Reports whether reading all leases takes long.
   *
   * @throws {CniError} 5 if the folder cannot be read
   */
  isLarge(): boolean {
    return this.#isLarge ??= this.#whileReading(() =>
      Deno.statSync(this.path).size > LARGE_FOLDER_BYTES
    );
  }

  /**
   * Lists all files if the folder is small or has been read already.
   *
   * @throws {CniError} 5 if the folder or a file cannot be read
   */
  listIfSmall(): Listing | undefined {
    if (this.#listing === undefined && this.isLarge()) return undefined;
    return this.listAll();
  }

  /**
   * Lists all files, and reads each one whose name looks like an address.
   *
   * Also removes the unfinished file of a killed process. The folder is read
   * only once: the lock keeps it unchanged.
   *
   * @throws {CniError} 5 if the folder or a file cannot be read
   */
  listAll(): Listing {
    return this.#listing ??= this.#readAll();
  }

  #readAll(): Map<string, string | undefined> {
    const entries = this.#whileReading(() => [...Deno.readDirSync(this.path)]);
    this.#sweep(entries);
    const mayBeLease = ({ name, isFile }: Deno.DirEntry): boolean =>
      isFile && /^[\da-f.:]+$/.test(name);
    return new Map(entries.map((entry) => [
      entry.name,
      mayBeLease(entry) ? this.#readListed(entry.name) ?? "" : undefined,
    ]));
  }

  #whileReading<T>(run: () => T): T {
    return withIoFailure(`read the lease folder "${this.path}"`, run);
  }

  #sweep(entries: readonly Deno.DirEntry[]): void {
    const isLeft = entries.some(({ name }) => name === UNFINISHED_FILE) &&
      !this.#draft?.isThere;
    if (isLeft) removeQuietly(this.pathOf(UNFINISHED_FILE));
  }

  /**
   * Reads a file, without surrounding blanks.
   *
   * @returns Undefined if the file does not exist
   * @throws {CniError} 5 if it cannot be read
   */
  read(name: string): string | undefined {
    return this.#readBy(readTextFile, name);
  }

  /** Reads what the folder lists as a file: thousands of them at most. */
  #readListed(name: string): string | undefined {
    return this.#readBy(Deno.readTextFileSync, name);
  }

  #readBy(read: (path: string) => string, name: string): string | undefined {
    const path = this.pathOf(name);
    return withIoFailure(
      `read "${path}"`,
      () => unlessUnreachable(() => read(path).trim()),
    );
  }

  /**
   * Removes a file, if it exists.
   *
   * @throws {CniError} 5 if it cannot be removed
   */
  remove(name: string): void {
    const path = this.pathOf(name);
    withIoFailure(
      `remove "${path}"`,
      () => unlessUnreachable(() => Deno.removeSync(path)),
    );
    this.#listing?.delete(name);
  }

  /**
   * Writes a file whole or not at all, and replaces an older one.
   *
   * @throws {CniError} 5 if it cannot be written
   */
  replace(name: string, content: string): void {
    const path = this.pathOf(name);
    withIoFailure(`write "${path}"`, () => {
      using draft = new Draft(this.pathOf(UNFINISHED_FILE), content);
      draft.replace(path);
    });
  }

  /**
   * Writes a lease whole or not at all, unless the address is leased.
   *
   * An empty file is not a lease: the Go plugin creates a file before it fills
   * it, so a crash leaves an empty one, which no running container owns.
   *
   * @param name The address
   * @returns False if the address is leased
   * @throws {CniError} 5 if it cannot be written
   */
  addLease(name: string, content: string): boolean {
    const path = this.pathOf(name);
    const isAdded = withIoFailure(`write "${path}"`, () => {
      const draft = this.#draftOf(content);
      if (draft.link(path)) return true;
      if (!isBlankFile(path)) return false;
      draft.replace(path);
      return true;
    });
    if (isAdded) this.#listing?.set(name, content);
    return isAdded;
  }

  /** Writes the lease once, however many addresses are tried. */
  #draftOf(content: string): Draft {
    if (this.#draft?.content === content && this.#draft.isThere) {
      return this.#draft;
    }
    // Synced before it gets its name, or a crash could leave it empty.
    const sync = (file: Deno.FsFile): void => file.syncDataSync();
    return this.#draft = new Draft(
      this.pathOf(UNFINISHED_FILE),
      content,
      sync,
    );
  }

  /** Removes an unfinished lease. */
  [Symbol.dispose](): void {
    this.#draft?.[Symbol.dispose]();
  }
}

/** Reports whether a path is an empty file. */
export function isBlankFile(path: string): boolean {
  return Deno.lstatSync(path).isFile &&
    Deno.readTextFileSync(path).trim() === "";
}
