/**
 * The files of one network: what may be in its folder, and how they are
 * changed so that no other program ever sees half of one.
 *
 * The layout is the Go plugin's, and both may work on one folder at a time:
 *
 * - `lock`: empty; flock(2) on it guards everything else
 * - `10.1.2.3`, `2001:db8::5`: a lease; holds `<container ID>\r\n<interface>`
 *   (only the container ID if it is of a very old plugin)
 * - `last_reserved_ip.<i>`: the address that was last handed out of range set i
 * - `unfinished`: one of these while it is written; outlives only a plugin that
 *   was killed meanwhile, and then has no meaning
 *
 * All other files are somebody else's and left alone.
 *
 * Source: containernetworking/plugins
 * plugins/ipam/host-local/backend/disk/backend.go.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { removeQuietly, withIoFailure } from "../../cni/io_failure.ts";
import { Draft } from "./draft.ts";
import { unlessMissing } from "./io_failure.ts";

/** Name of the file that is locked. */
export const LOCK_FILE = "lock";
/** Not an address, so no program takes it for a lease. */
const UNFINISHED_FILE = "unfinished";

/** A folder up to this size is read whole each time: some 250 to 400 leases. */
const LARGE_FOLDER_BYTES = 8 * 1024;

/** Names the file that holds the address that was last handed out of a range set. */
export function lastReservedName(rangeSet: number): string {
  return `last_reserved_ip.${rangeSet}`;
}

/** What is in a folder, by name: the content of what may be a lease. */
export type Listing = ReadonlyMap<string, string | undefined>;

/** The folder of a network. Who changes it holds the lock. */
export class LeaseFolder implements Disposable {
  /** Where it is. */
  readonly path: string;
  #draft: Draft | undefined;
  #listing: Map<string, string | undefined> | undefined;
  #isLarge: boolean | undefined;

  /** Names the folder; it need not exist. */
  constructor(dataDir: string, network: string) {
    this.path = join(dataDir, network);
  }

  /** Returns the path of a file in it. */
  pathOf(name: string): string {
    return join(this.path, name);
  }

  /**
   * Says whether it takes long to read all leases.
   *
   * @throws {CniError} 5 if the folder cannot be read
   */
  isLarge(): boolean {
    return this.#isLarge ??= this.#whileReading(() =>
      Deno.statSync(this.path).size > LARGE_FOLDER_BYTES
    );
  }

  /**
   * Lists everything if the folder is not large, or was read already.
   *
   * @throws {CniError} 5 if the folder or a file cannot be read
   */
  listIfSmall(): Listing | undefined {
    if (this.#listing === undefined && this.isLarge()) return undefined;
    return this.listAll();
  }

  /**
   * Lists everything, and reads each file whose name looks like an address.
   * What a killed process has left unfinished is removed on the way. The folder
   * is read once: the lock keeps it as it is.
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
      mayBeLease(entry) ? this.read(entry.name) ?? "" : undefined,
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
   * Reads a file, without blanks around its content.
   *
   * @returns Undefined if there is none
   * @throws {CniError} 5 if it cannot be read
   */
  read(name: string): string | undefined {
    const path = this.pathOf(name);
    return withIoFailure(
      `read "${path}"`,
      () => unlessMissing(() => Deno.readTextFileSync(path).trim()),
    );
  }

  /**
   * Removes a file; one that is not there is no failure.
   *
   * @throws {CniError} 5 if it cannot be removed
   */
  remove(name: string): void {
    const path = this.pathOf(name);
    withIoFailure(
      `remove "${path}"`,
      () => unlessMissing(() => Deno.removeSync(path)),
    );
    this.#listing?.delete(name);
  }

  /**
   * Writes a file whole or not at all, in place of an older one.
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
   * An empty file is no lease: the Go plugin creates a file and fills it then,
   * so that a crash leaves an empty one, and no container has outlived that.
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

  /** Writes the lease once, however many addresses are tried for it. */
  #draftOf(content: string): Draft {
    if (this.#draft?.content === content && this.#draft.isThere) {
      return this.#draft;
    }
    // On disk before it has a name, or a crash could leave it empty.
    const sync = (file: Deno.FsFile): void => file.syncDataSync();
    return this.#draft = new Draft(
      this.pathOf(UNFINISHED_FILE),
      content,
      sync,
    );
  }

  /** Removes what was begun and came to nothing. */
  [Symbol.dispose](): void {
    this.#draft?.[Symbol.dispose]();
  }
}

/** Says whether a path is a file with nothing in it. */
export function isBlankFile(path: string): boolean {
  return Deno.lstatSync(path).isFile &&
    Deno.readTextFileSync(path).trim() === "";
}
