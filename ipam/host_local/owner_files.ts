/**
 * One small file for each attachment, with the addresses that it has, so that
 * DEL need not read all leases of a large folder.
 *
 * `<dataDir>/.by-owner/<network>/<container ID>:<interface>` holds one line, as
 * in `10.1.2.3 2001:db8::5`. No network has a name that begins with a dot, so
 * neither the Go plugin nor tools that list a network's folder come across it.
 *
 * The leases are the truth. A file only says which of them to read:
 *
 * - ADD empties the file before the first lease, and writes the line after the
 *   last one. DEL removes the leases before the file.
 * - A file that is missing, empty or cut off says nothing. A line counts only
 *   if all its leases belong to the attachment. Otherwise all leases are read.
 *
 * So no crash, full disk or half-written file hides a lease, and the folder may
 * be deleted at any time.
 *
 * @module
 */

import { basename, dirname, join } from "@std/path/posix";
import {
  ifPossible,
  removeQuietly,
  withIoFailure,
} from "../../cni/io_failure.ts";
import { unlessMissing } from "./io_failure.ts";
import { formatContainer, type Owner } from "./lease.ts";

/** The folder for all networks, beside their lease folders. */
const BY_OWNER = ".by-owner";

/** The files of one network's owners. Use them only while the network is locked. */
export class OwnerFiles {
  readonly #dataDir: string;
  readonly #network: string;
  readonly #path: string;

  /**
   * Names the folder; it need not exist.
   *
   * @param leaseFolder The network's lease folder
   */
  constructor(leaseFolder: string) {
    this.#dataDir = dirname(leaseFolder);
    this.#network = basename(leaseFolder);
    this.#path = join(this.#dataDir, BY_OWNER, this.#network);
  }

  /** Says whether the network's folder is there, without a call that fails. */
  areKept(): boolean {
    return listNames(this.#dataDir).includes(BY_OWNER) &&
      listNames(join(this.#dataDir, BY_OWNER)).includes(this.#network);
  }

  /** Lists the addresses that an owner's file names; none if it says nothing. */
  find(owner: Owner): string[] {
    const path = this.#pathOf(owner);
    return parseLine(ifPossible(() => Deno.readTextFileSync(path)) ?? "");
  }

  /**
   * Lists the same as {@linkcode OwnerFiles.find}, and creates the file if it is
   * missing: in Deno, that takes less time than a call that fails.
   *
   * @returns Undefined if the file says nothing: an ADD that was killed may have
   *   left leases
   */
  findOrCreate(owner: Owner): string[] | undefined {
    const path = this.#pathOf(owner);
    const create = (): boolean => {
      const options = { write: true, createNew: true, mode: 0o600 };
      Deno.openSync(path, options).close();
      return true;
    };
    if (ifPossible(create)) return [];
    const text = ifPossible(() => Deno.readTextFileSync(path));
    if (text !== undefined) {
      const addresses = parseLine(text);
      return addresses.length > 0 ? addresses : undefined;
    }
    ifPossible(() => {
      Deno.mkdirSync(this.#path, { recursive: true, mode: 0o700 });
      create();
    });
    return [];
  }

  /**
   * Makes an owner's file say nothing, before the owner gets a lease.
   *
   * @throws {CniError} 5 if it goes on saying something
   */
  empty(owner: Owner): void {
    if (this.#write(owner, "")) return;
    const path = this.#pathOf(owner);
    withIoFailure(
      `remove "${path}"`,
      () => unlessMissing(() => Deno.removeSync(path)),
    );
  }

  /** Writes which addresses an owner has: all of them. Never throws. */
  fill(owner: Owner, addresses: readonly string[]): void {
    this.#write(owner, `${addresses.join(" ")}\n`);
  }

  #write(owner: Owner, text: string): boolean {
    const path = this.#pathOf(owner);
    return ifPossible(() => {
      Deno.writeTextFileSync(path, text, { mode: 0o600 });
      return true;
    }) ?? false;
  }

  /** Removes an owner's file. Never throws: what it says is looked up. */
  remove(owner: Owner): void {
    removeQuietly(this.#pathOf(owner));
  }

  /** Removes the files of all but these owners. Never throws. */
  retain(owners: readonly Owner[]): void {
    const names = new Set(owners.map(nameOf));
    for (const name of listNames(this.#path)) {
      if (!names.has(name)) removeQuietly(join(this.#path, name));
    }
  }

  #pathOf(owner: Owner): string {
    return join(this.#path, nameOf(owner));
  }
}

/** Neither part may contain a colon or a slash, so no two owners share a name. */
function nameOf({ containerId, ifName }: Owner): string {
  return [formatContainer(containerId), ifName]
    .map((part) => encodeURIComponent(part.toWellFormed())).join(":");
}

/** A line without its end was cut off. */
function parseLine(text: string): string[] {
  return text.endsWith("\n") ? text.trim().split(" ") : [];
}

function listNames(path: string): string[] {
  const entries = ifPossible(() => [...Deno.readDirSync(path)]) ?? [];
  return entries.map(({ name }) => name);
}
