/**
 * Scratch files: the record of a pod's networks between ADD and DEL, in a file named
 * after the container's ID. DEL needs no API server, and detaches the networks of ADD
 * even if the annotation has changed in the meantime.
 *
 * The Go version reads and writes the same format, so either version can replace the
 * other on a node with running pods. The format is a plain list without room for a
 * checksum. Instead, a file is renamed into place once it is on disk, so it is
 * complete or missing (a file of the Go version can be empty or truncated after a
 * crash), and all networks in it are decoded before the first is used.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { CniError, describeError, ErrorCode } from "../../../base/error.ts";
import {
  ifPossible,
  removeIfThere,
  unlessMissing,
  withIoFailure,
} from "../../../base/files/io.ts";
import { replaceFile } from "../../../base/files/replace.ts";
import type { Log } from "../../../base/log/log.ts";
import type { Delegate } from "../model/delegate.ts";
import { nameByIndex } from "../model/attachment.ts";
import {
  decodeScratch,
  encodeScratch,
  type ScratchDocument,
} from "./scratch_document.ts";

/** The usable content of a container's scratch file. */
export interface ScratchState {
  /**
   * The readable networks, in order. The request of a network that moved up in the
   * list contains its interface name.
   */
  readonly delegates: readonly Delegate[];
  /** Whether the file is complete. */
  readonly isComplete: boolean;
  /**
   * Name of the multus network that wrote the file; "" without a file, or if the
   * Go version wrote it.
   */
  readonly owner: string;
}

/** The state of a container without a scratch file. */
const NOTHING: ScratchState = { delegates: [], isComplete: false, owner: "" };

/** The scratch files in a directory. */
export class ScratchCache {
  readonly #directory: string;
  readonly #log: Pick<Log, "warn"> | undefined;

  /**
   * Sets the directory, which also contains libcni's `results`.
   *
   * @param cniDir Created if necessary
   * @param log Receives warnings about unreadable files
   */
  constructor(cniDir: string, log?: Pick<Log, "warn">) {
    this.#directory = cniDir;
    this.#log = log;
  }

  /**
   * Writes the networks of a container; replaces an earlier file.
   *
   * @param owner Name of the multus network that attaches the container
   * @throws {CniError} 5 if the file cannot be written, 4 if the container's ID is
   * the name of a directory there
   */
  write(
    containerId: string,
    delegates: readonly Delegate[],
    owner = "",
  ): void {
    checkIdUsable(containerId);
    const path = this.#path(containerId);
    const bytes = encodeScratch(delegates, owner);
    withIoFailure(`write "${path}"`, () => {
      if (this.#directory === "") throw new Error("no directory is given");
      replaceFile(path, bytes);
    });
  }

  /**
   * Reads the networks of a container.
   *
   * @returns Undefined without a file, or if a part of it is unreadable
   */
  read(containerId: string): Delegate[] | undefined {
    const { delegates, isComplete } = this.readUsable(containerId);
    return isComplete ? [...delegates] : undefined;
  }

  /**
   * Reads all readable networks of a container, for DEL. Never throws.
   */
  readUsable(containerId: string): ScratchState {
    const path = this.#path(containerId);
    try {
      const bytes = readScratchFile(path);
      if (bytes === undefined) return NOTHING;
      return this.#pickUsable(decodeScratch(bytes, `"${path}"`));
    } catch (error) {
      this.#warn(error);
      return NOTHING;
    }
  }

  /** Reports whether a container has a file, whatever its content. */
  has(containerId: string): boolean {
    const path = this.#path(containerId);
    return ifPossible(() => Deno.statSync(path).isFile) ?? false;
  }

  /**
   * Removes a container's file; succeeds without a file, even for an ID that no ADD
   * accepts, because it is the name of a directory.
   *
   * @throws {CniError} 5 if the file cannot be removed
   */
  remove(containerId: string): void {
    if (TAKEN_NAMES.includes(containerId)) return;
    removeIfThere(this.#path(containerId));
  }

  /**
   * Lists the containers with a file, in alphabetical order. Other files in the
   * directory are ignored.
   *
   * @param isSpared Returns whether to omit a container; its file is not opened
   * @throws {CniError} 5 if the directory cannot be read
   */
  list(isSpared: (containerId: string) => boolean = () => false): string[] {
    const names = withIoFailure(
      `read the directory "${this.#directory}"`,
      () => listFiles(this.#directory),
    );
    return names.filter((name) =>
      !isSpared(name) && looksLikeScratch(this.#path(name))
    ).sort();
  }

  /**
   * Reports whether a container's file is newer than a time, such as the latest time
   * at which the runtime can have listed its containers.
   */
  isYounger(containerId: string, time: Date): boolean {
    const since = findTime(this.#path(containerId));
    return since !== undefined && since > time;
  }

  #path(containerId: string): string {
    return join(this.#directory, containerId);
  }

  #pickUsable({ owner, entries }: ScratchDocument): ScratchState {
    const isUsable = (entry: Delegate | CniError): entry is Delegate =>
      !(entry instanceof CniError);
    const isComplete = entries.every(isUsable);
    const delegates = entries.flatMap((entry, index) => {
      if (isUsable(entry)) return isComplete ? entry : pinName(entry, index);
      this.#warn(entry);
      return [];
    });
    return { delegates, isComplete, owner };
  }

  #warn(error: unknown): void {
    this.#log?.warn("Cannot use a scratch file", {
      error: describeError(error),
    });
  }
}

/** Directories next to the scratch files: libcni's results and steps, and the locks. */
const TAKEN_NAMES: readonly string[] = ["results", "locks", "steps"];

function checkIdUsable(containerId: string): void {
  if (!TAKEN_NAMES.includes(containerId)) return;
  throw new CniError(
    ErrorCode.InvalidEnvironment,
    `Cannot record container "${containerId}": CNI_CONTAINERID is the name of a multus directory`,
  );
}

/** Keeps the interface name of a delegate that moves up in the list. */
function pinName(delegate: Delegate, index: number): Delegate {
  // The first network cannot move, and only DEL receives its name.
  if (index === 0) return delegate;
  const ifName = delegate.request.ifName || nameByIndex(index, "");
  return { ...delegate, request: { ...delegate.request, ifName } };
}

function readScratchFile(path: string): Uint8Array | undefined {
  return unlessMissing(() =>
    // Reading a pipe would wait for a writer.
    Deno.statSync(path).isFile ? Deno.readFileSync(path) : undefined
  );
}

/**
 * Returns the time of a file's last change; undefined if it was deleted or
 * cannot be read.
 */
function findTime(path: string): Date | undefined {
  return ifPossible(() => Deno.statSync(path).mtime) ?? undefined;
}

/** Lists files, without directories and hidden files. */
function listFiles(directory: string): string[] {
  const entries = unlessMissing(() => [...Deno.readDirSync(directory)]) ?? [];
  return entries
    .filter(({ isFile, name }) => isFile && !name.startsWith("."))
    .map(({ name }) => name);
}

/** Reports whether a file begins like a list, or might have been damaged by a crash. */
function looksLikeScratch(path: string): boolean {
  try {
    using file = Deno.openSync(path);
    const start = new Uint8Array(64);
    const length = file.readSync(start) ?? 0;
    const first = start.subarray(0, length).find((byte) => byte > SPACE);
    return first === undefined || first === OPENING_BRACKET;
  } catch {
    return false; // It was deleted in between, or cannot be read.
  }
}

const SPACE = 0x20, OPENING_BRACKET = 0x5b;
