/**
 * The index of a large directory of leases, so that a call need not read each lease:
 * `<dataDir>/.index/<network>`.
 *
 * The leases are authoritative, and other programs change them as well. So the index
 * contains the times of the directory at which it was written, and is valid only while
 * the directory has these times. The kernel sets the modification time of a directory
 * for each file that is created, renamed or removed in it, but at most once per clock
 * tick. That is too coarse to order two changes, so the index is sealed: the
 * directory's modification time is set back to a time without a change, and each later
 * change sets it forward again. No program can set the change time.
 *
 * So no program, crash, full disk, or restored directory hides a lease, and the
 * index can be deleted at any time. Use it only while the directory is locked.
 *
 * @module
 */

import { basename, dirname, join } from "@std/path/posix";
import { ifPossible, removeUnfinished } from "../../../base/files/io.ts";
import { fileIdOf } from "../../../base/files/same_file.ts";
import type { Listing } from "./listing.ts";

/** The directory for all networks, next to the directories of their leases. */
const INDEX = ".index";

/** How far a modification time is set back: 1 s to a day, in ms. */
const LEAST_BACK_MS = 1_000, MOST_BACK_MS = 86_400_000;

/**
 * The listing in the index: a line for each file, with the content of a possible lease
 * as JSON. A call searches for an owner and a few addresses, and searching the text
 * takes less time than parsing it.
 */
class TextListing implements Listing {
  readonly source = "index";
  /** Each line begins and ends with a line end. */
  text: string;

  constructor(text: string) {
    this.text = text;
  }

  get(name: string): string | undefined {
    const start = this.#find(name);
    return start < 0 ? undefined : parseLine(this.#lineAt(start))[1];
  }

  has(name: string): boolean {
    return this.#find(name) >= 0;
  }

  *entries(): Generator<[name: string, content: string | undefined]> {
    for (const line of this.text.split("\n")) {
      if (line !== "") yield parseLine(line);
    }
  }

  withContent(content: string): string[] {
    const wanted = ` ${JSON.stringify(content)}\n`, names: string[] = [];
    let end = this.text.indexOf(wanted);
    while (end >= 0) {
      names.push(this.text.slice(this.text.lastIndexOf("\n", end) + 1, end));
      end = this.text.indexOf(wanted, end + 1);
    }
    return names;
  }

  set(name: string, content: string | undefined): void {
    this.delete(name);
    this.text += formatLine(name, content);
  }

  delete(name: string): void {
    const start = this.#find(name);
    if (start < 0) return;
    const end = this.text.indexOf("\n", start);
    this.text = this.text.slice(0, start) + this.text.slice(end + 1);
  }

  /** Returns where the line of a file begins; -1 if it does not exist. */
  #find(name: string): number {
    const before = this.text.indexOf(`\n${name} `);
    return before < 0 ? -1 : before + 1;
  }

  #lineAt(start: number): string {
    return this.text.slice(start, this.text.indexOf("\n", start));
  }
}

function formatLine(name: string, content: string | undefined): string {
  return `${name} ${JSON.stringify(content ?? null)}\n`;
}

function parseLine(line: string): [name: string, content: string | undefined] {
  // A file of another program can have any name.
  const [, name = "", json = "null"] = /^(.*) (null|".*")$/.exec(line) ?? [];
  return [name, JSON.parse(json) ?? undefined];
}

/** A network's directory. */
export interface IndexedDirectory {
  readonly path: string;
  /**
   * Path of the lock file. Copying a directory over this directory, file by file,
   * changes the lock's times, even if no name changes.
   */
  readonly lockPath: string;
}

/**
 * Reads the index of a directory; undefined if the directory has changed since.
 */
export function readIndex(directory: IndexedDirectory): Listing | undefined {
  return ifPossible(() => {
    const text = Deno.readTextFileSync(pathOfIndex(directory));
    const end = text.indexOf("\n");
    return text.slice(0, end) === readTimes(directory)
      ? new TextListing(text.slice(end))
      : undefined;
  });
}

/**
 * Writes the index, and seals it. If that is impossible, later calls read the
 * leases.
 */
export function writeIndex(
  directory: IndexedDirectory,
  listing: Listing,
): void {
  const path = pathOfIndex(directory), unfinished = `${path}.unfinished`;
  const isWritten = ifPossible(() => {
    const backMs = LEAST_BACK_MS +
      Math.random() * (MOST_BACK_MS - LEAST_BACK_MS);
    const sealed = new Date(Math.trunc(Date.now() - backMs));
    Deno.utimeSync(directory.path, sealed, sealed);
    const times = readTimes(directory);
    // A program that does not take the lock has changed the directory since.
    if (Deno.statSync(directory.path).mtime?.getTime() !== sealed.getTime()) {
      return false;
    }
    const lines = listing instanceof TextListing
      ? listing.text
      : "\n" + [...listing.entries()].map((file) => formatLine(...file))
        .join("");
    Deno.mkdirSync(dirname(unfinished), { recursive: true, mode: 0o700 });
    Deno.writeTextFileSync(unfinished, times + lines, { mode: 0o600 });
    // Whole or not at all, even if this process is killed.
    Deno.renameSync(unfinished, path);
    return true;
  });
  // The disk might be full.
  if (!isWritten) removeUnfinished(unfinished);
}

/**
 * Removes the index, because a lease needs the space.
 *
 * @returns Whether it existed
 */
export function removeIndex(directory: IndexedDirectory): boolean {
  return ifPossible(() => {
    Deno.removeSync(pathOfIndex(directory));
    return true;
  }) ?? false;
}

function pathOfIndex({ path }: IndexedDirectory): string {
  return join(dirname(path), INDEX, basename(path));
}

function readTimes({ path, lockPath }: IndexedDirectory): string {
  return [path, lockPath].map(timesOf).join(" ");
}

/** Returns the identity of a file and its times in ms, which a change changes. */
function timesOf(path: string): string {
  const info = Deno.statSync(path);
  const { mtime, ctime } = info;
  return `${fileIdOf(info)} ${mtime?.getTime()} ${ctime?.getTime()}`;
}
