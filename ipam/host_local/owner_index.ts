/**
 * Which addresses a container has, remembered beside the leases, so that a
 * folder with very many of them need not be read for one.
 *
 * It is a cache, on storage that is gone after a reboot: a text file for each
 * sixteenth of the containers, with a line `<hash of the container ID>
 * <address>` for a lease. Lines may be out of date, so what they say is looked up in the
 * leases themselves. One more file, `signature`, says of which state of the
 * lease folder the index knows all leases.
 *
 * Nothing here ever throws: without it everything works, and takes longer.
 *
 * @module
 */

import { dirname, join } from "@std/path/posix";
import { ifPossible } from "../../cni/io_failure.ts";

/** Where indexes are kept. */
export const INDEX_DIR = "/run/cni/host-local";

const SIGNATURE_FILE = "signature";
/** The first digits of a hash in hexadecimal; each has its file. */
const BUCKETS = "0123456789abcdef";

/**
 * Returns where the index of a lease folder is, by whatever links that is
 * reached.
 *
 * @throws {Error} If there is no such folder
 */
export function indexPathOf(folder: string, indexDir = INDEX_DIR): string {
  return join(indexDir, encodeURIComponent(Deno.realPathSync(folder)));
}

/** A lease, as far as the index is concerned. */
export interface IndexEntry {
  /** The container that has it. */
  readonly containerId: string;
  /** The name of its file. */
  readonly address: string;
}

/** The index of one lease folder. Whoever uses it holds the folder's lock. */
export class OwnerIndex {
  readonly #folder: string;
  readonly #indexDir: string;
  #path: string | undefined;

  /**
   * Names the index; neither it nor the folder need exist.
   *
   * @param folder The lease folder
   * @param indexDir Where the indexes of all folders are
   */
  constructor(folder: string, indexDir: string = INDEX_DIR) {
    this.#folder = folder;
    this.#indexDir = indexDir;
  }

  /** The state of the folder of which all leases are here; "" if there is none. */
  get signature(): string {
    return ifPossible(() =>
      Deno.readTextFileSync(this.#pathOf(SIGNATURE_FILE))
    ) ??
      "";
  }

  /** Says of which state of the folder all leases are here. */
  sign(signature: string): void {
    ifPossible(() =>
      Deno.writeTextFileSync(this.#pathOf(SIGNATURE_FILE), signature)
    );
  }

  /** Lists the addresses that a container has, and maybe others. */
  addressesOf(containerId: string): string[] {
    const hash = hashOf(containerId);
    const path = (): string => this.#pathOf(bucketOf(hash));
    const text = ifPossible(() => Deno.readTextFileSync(path())) ?? "";
    const start = `\n${hash} `, addresses: string[] = [];
    for (let at = text.indexOf(start); at >= 0;) {
      const end = text.indexOf("\n", at + 1);
      addresses.push(text.slice(at + start.length, end));
      at = text.indexOf(start, end);
    }
    return addresses;
  }

  /**
   * Adds a lease.
   *
   * @returns Whether it is in the index now
   */
  add(entry: IndexEntry): boolean {
    const [bucket, line] = formatEntry(entry);
    const append = (): boolean => {
      Deno.writeTextFileSync(this.#pathOf(bucket), line, { append: true });
      return true;
    };
    return ifPossible(append) ?? ifPossible(() => {
      this.#create();
      return append();
    }) ?? false;
  }

  /**
   * Removes a lease.
   *
   * @returns Whether it is no longer in the index
   */
  remove(entry: IndexEntry): boolean {
    const [bucket, line] = formatEntry(entry);
    const text = ifPossible(() => Deno.readTextFileSync(this.#pathOf(bucket)));
    return text !== undefined &&
      this.#replace(bucket, text.replaceAll(line, ""));
  }

  /**
   * Holds these leases and no others.
   *
   * @returns Whether they are in the index now
   */
  replaceAll(entries: Iterable<IndexEntry>): boolean {
    const buckets = new Map([...BUCKETS].map((bucket) => [bucket, ""]));
    for (const [bucket, line] of Array.from(entries, formatEntry)) {
      buckets.set(bucket, buckets.get(bucket) + line);
    }
    ifPossible(() => this.#create());
    return [...buckets].every((bucket) => this.#replace(...bucket));
  }

  #create(): void {
    Deno.mkdirSync(dirname(this.#indexDir), { recursive: true });
    Deno.mkdirSync(this.#pathOf(""), { recursive: true, mode: 0o700 });
  }

  /** Replaces a file in one step: half of it would hide leases. */
  #replace(bucket: string, text: string): boolean {
    return ifPossible(() => {
      const path = this.#pathOf(bucket);
      Deno.writeTextFileSync(`${path}.new`, text);
      Deno.renameSync(`${path}.new`, path);
      return true;
    }) ?? false;
  }

  #pathOf(name: string): string {
    this.#path ??= indexPathOf(this.#folder, this.#indexDir);
    return join(this.#path, name);
  }
}

/**
 * Returns a lease's file and line. There are line ends on both sides, so that
 * what a full disk cut off spoils no other line.
 */
function formatEntry(
  { containerId, address }: IndexEntry,
): [bucket: string, line: string] {
  const hash = hashOf(containerId);
  return [bucketOf(hash), `\n${hash} ${address}\n`];
}

function bucketOf(hash: string): string {
  return hash.slice(0, 1);
}

/** Source: FNV-1a, 32 bits, of UTF-16 units; equal hashes do no harm. */
function hashOf(containerId: string): string {
  let hash = 0x811c9dc5;
  for (let i = 0; i < containerId.length; i++) {
    hash = Math.imul(hash ^ containerId.charCodeAt(i), 0x01000193);
  }
  return (hash >>> 0).toString(16).padStart(8, "0");
}
