/**
 * One small file for each attachment with its addresses, so that DEL need not
 * read all leases of a large directory.
 *
 * `<dataDir>/.by-owner/<network>/<container ID>:<interface>` holds one line such
 * as `10.1.2.3 2001:db8::5`. Names of networks never begin with a dot, so
 * neither the Go plugin nor tools that list a network's directory see these files.
 *
 * The leases are the truth. A file only names the leases to read:
 *
 * - ADD empties the file before the first lease, and writes the line after the
 *   last one. DEL removes the leases before the file.
 * - An empty or truncated file is ignored. A line is used only if all its leases
 *   belong to the attachment. Otherwise all leases are read.
 * - A missing file means that the attachment has no lease of this plugin. So the
 *   network's directory gets its name when it has a file for each owner of a
 *   lease, and while it does not exist, all leases are read.
 *
 * So no crash, full disk or half-written file hides a lease, and the directory may
 * be deleted at any time.
 *
 * @module
 */

import { basename, dirname, join } from "@std/path/posix";
import {
  ifPossible,
  readTextFile,
  removeQuietly,
  unlessUnreachable,
  withIoFailure,
} from "../../base/files/io.ts";
import type { AttachmentId } from "../../cni/config/types.ts";
import { formatContainer } from "./lease.ts";

/** The directory for all networks, next to the directories of their leases. */
const BY_OWNER = ".by-owner";

/**
 * The files of one network's owners. Use them only while the network is locked.
 */
export class OwnerFiles {
  readonly #dataDir: string;
  readonly #network: string;
  readonly #path: string;

  /**
   * Names the directory, which need not exist.
   *
   * @param leases Path of the network's leases
   */
  constructor(leases: string) {
    this.#dataDir = dirname(leases);
    this.#network = basename(leases);
    this.#path = join(this.#dataDir, BY_OWNER, this.#network);
  }

  /** Reports whether the network's directory exists, without a failing call. */
  areKept(): boolean {
    return listNames(this.#dataDir).includes(BY_OWNER) &&
      listNames(join(this.#dataDir, BY_OWNER)).includes(this.#network);
  }

  /** Lists the addresses in an owner's file; none without a usable file. */
  find(owner: AttachmentId): string[] {
    const path = this.#pathOf(owner);
    return parseLine(ifPossible(() => readTextFile(path)) ?? "");
  }

  /**
   * Like {@linkcode OwnerFiles.find}, but creates a missing file: in Deno, that
   * takes less time than a failing call.
   *
   * @returns Undefined if all leases must be read: the network's directory does
   *   not exist, or the file has no usable line because an ADD was killed
   */
  findOrCreate(owner: AttachmentId): string[] | undefined {
    const path = this.#pathOf(owner);
    const create = (): boolean => {
      const options = { write: true, createNew: true, mode: 0o600 };
      Deno.openSync(path, options).close();
      return true;
    };
    if (ifPossible(create)) return [];
    const addresses = this.find(owner);
    return addresses.length > 0 ? addresses : undefined;
  }

  /**
   * Empties an owner's file, before the owner gets a lease. Creates the network's
   * directory if necessary and possible.
   *
   * @param listOwners Lists the addresses of all owners; undefined if a lease does
   *   not name its interface, so that a missing file would mean nothing
   * @throws {CniError} 5 if the directory exists and the file cannot be written
   */
  empty(
    owner: AttachmentId,
    listOwners: () => Iterable<[AttachmentId, string[]]> | undefined,
  ): void {
    const path = this.#pathOf(owner);
    const write = (): boolean | undefined =>
      unlessUnreachable(() => {
        Deno.writeTextFileSync(path, "", { mode: 0o600 });
        return true;
      });
    withIoFailure(`write "${path}"`, () => {
      if (write()) return;
      // Not for a name that is too long for a file.
      const owners = this.areKept() ? undefined : listOwners();
      if (owners !== undefined && this.#build(owners)) write();
    });
  }

  /** Creates the network's directory, with all files or not at all. */
  #build(owners: Iterable<[AttachmentId, string[]]>): boolean {
    // A killed process may have left one. No network's name begins with a dot.
    const unfinished = join(this.#dataDir, BY_OWNER, `.${this.#network}`);
    const remove = (): void => {
      ifPossible(() => Deno.removeSync(unfinished, { recursive: true }));
    };
    remove();
    const isBuilt = ifPossible(() => {
      Deno.mkdirSync(unfinished, { recursive: true, mode: 0o700 });
      for (const [owner, addresses] of owners) {
        const path = join(unfinished, nameOf(owner));
        unlessUnreachable(() =>
          Deno.writeTextFileSync(path, lineOf(addresses), { mode: 0o600 })
        );
      }
      Deno.renameSync(unfinished, this.#path);
      return true;
    }) ?? false;
    if (!isBuilt) remove();
    return isBuilt;
  }

  /** Writes all addresses of an owner. Never throws. */
  fill(owner: AttachmentId, addresses: readonly string[]): void {
    const path = this.#pathOf(owner);
    ifPossible(() =>
      Deno.writeTextFileSync(path, lineOf(addresses), { mode: 0o600 })
    );
  }

  /**
   * Removes an owner's file. Never throws: a stale file is checked against the
   * leases.
   */
  remove(owner: AttachmentId): void {
    removeQuietly(this.#pathOf(owner));
  }

  /** Removes the files of all other owners. Never throws. */
  retain(owners: readonly AttachmentId[]): void {
    const names = new Set(owners.map(nameOf));
    for (const name of listNames(this.#path)) {
      if (!names.has(name)) removeQuietly(join(this.#path, name));
    }
  }

  #pathOf(owner: AttachmentId): string {
    return join(this.#path, nameOf(owner));
  }
}

/**
 * Neither part may contain a colon or a slash, so owners never share a name.
 */
function nameOf({ containerId, ifName }: AttachmentId): string {
  return [formatContainer(containerId), ifName]
    .map((part) => encodeURIComponent(part.toWellFormed())).join(":");
}

function lineOf(addresses: readonly string[]): string {
  return `${addresses.join(" ")}\n`;
}

/** A line without its end is truncated. */
function parseLine(text: string): string[] {
  return text.endsWith("\n") ? text.trim().split(" ") : [];
}

function listNames(path: string): string[] {
  const entries = ifPossible(() => [...Deno.readDirSync(path)]) ?? [];
  return entries.map(({ name }) => name);
}
