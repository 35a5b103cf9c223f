/**
 * What multus remembers of a pod between ADD and DEL: its networks, in a file
 * named by the container's ID. So DEL needs no API server, and undoes what ADD
 * did though the annotation has changed since.
 *
 * The format is the Go version's, which reads our files as we read its: one may
 * take the place of the other on a node with pods. It is a bare list, so there
 * is no place for a checksum. What stands in for that: a file is complete or
 * not there, for it gets its name when it is on disk, whereas the Go version's
 * may be empty or cut off after a crash; and every network in it is decoded
 * before the first is used.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { CniError, describeError, ErrorCode } from "../../../cni/error.ts";
import {
  ifPossible,
  removeIfThere,
  unlessMissing,
  withIoFailure,
} from "../../../cni/io_failure.ts";
import { replaceFile } from "../../../cni/libcni/replace_file.ts";
import type { Log } from "../../../cni/log.ts";
import type { Delegate } from "../networks/delegate.ts";
import { nameByPlace } from "../delegate_conf.ts";
import {
  decodeScratch,
  encodeScratch,
  type ScratchDocument,
} from "./scratch_document.ts";

/** What can be used of a container's scratch file. */
export interface ScratchState {
  /**
   * Those networks that could be read, in order. Each that does not stand where
   * it stood has its interface's name in its request.
   */
  readonly delegates: readonly Delegate[];
  /** Whether they are all that was attached, as far as the file says. */
  readonly isComplete: boolean;
  /**
   * Name of the multus network that wrote the file; "" if there is no file, or
   * it does not say, as those of the Go version.
   */
  readonly owner: string;
}

/** What is known of a container without a scratch file. */
const NOTHING: ScratchState = { delegates: [], isComplete: false, owner: "" };

/** The scratch files of one folder. */
export class ScratchCache {
  readonly #folder: string;
  readonly #log: Pick<Log, "warn"> | undefined;

  /**
   * Keeps them in a folder, beside libcni's `results`.
   *
   * @param cniDir Made when it is needed
   * @param log Told of files that cannot be read
   */
  constructor(cniDir: string, log?: Pick<Log, "warn">) {
    this.#folder = cniDir;
    this.#log = log;
  }

  /**
   * Remembers the networks of a container, in place of earlier ones.
   *
   * @param owner Name of the multus network that attaches it
   * @throws {CniError} 5 if they cannot be written, 4 if the container has a name
   *   that the folder has another use for
   */
  write(
    containerId: string,
    delegates: readonly Delegate[],
    owner = "",
  ): void {
    checkIsFree(containerId);
    const path = this.#path(containerId);
    const bytes = encodeScratch(delegates, owner);
    withIoFailure(`write "${path}"`, () => {
      if (this.#folder === "") throw new Error("no folder is given");
      replaceFile(path, bytes);
    });
  }

  /**
   * Reads the networks of a container.
   *
   * @returns Undefined if there is no file, or not all of it can be read
   */
  read(containerId: string): Delegate[] | undefined {
    const { delegates, isComplete } = this.readWhatIsLeft(containerId);
    return isComplete ? [...delegates] : undefined;
  }

  /**
   * Reads as many networks of a container as can be read, for a DEL that has to
   * do without the others, or finds them elsewhere. It never throws.
   */
  readWhatIsLeft(containerId: string): ScratchState {
    const path = this.#path(containerId);
    try {
      const bytes = readIfThere(path);
      if (bytes === undefined) return NOTHING;
      return this.#pickUsable(decodeScratch(bytes, `"${path}"`));
    } catch (error) {
      this.#warn(error);
      return NOTHING;
    }
  }

  /** Says whether there is a file for a container, whatever is in it. */
  has(containerId: string): boolean {
    const path = this.#path(containerId);
    return ifPossible(() => Deno.statSync(path).isFile) ?? false;
  }

  /**
   * Forgets a container; succeeds if it is not remembered.
   *
   * @throws {CniError} 5 if the file cannot be removed
   */
  remove(containerId: string): void {
    removeIfThere(this.#path(containerId));
  }

  /**
   * Lists the containers that are remembered, in alphabetical order. What is no
   * scratch file by its looks is left out, for a folder may have other files.
   *
   * @throws {CniError} 5 if the folder cannot be read
   */
  list(): string[] {
    const names = withIoFailure(
      `read the folder "${this.#folder}"`,
      () => listFiles(this.#folder),
    );
    return names.filter((name) => looksLikeScratch(this.#path(name))).sort();
  }

  /**
   * Says whether a container was remembered after a time, such as that at which
   * the runtime may have listed its containers.
   */
  isYounger(containerId: string, time: Date): boolean {
    const since = findTime(this.#path(containerId));
    return since !== undefined && since > time;
  }

  #path(containerId: string): string {
    return join(this.#folder, containerId);
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

/** Folders beside the scratch files: libcni's results and the locks. */
const TAKEN_NAMES: readonly string[] = ["results", "locks"];

function checkIsFree(containerId: string): void {
  if (!TAKEN_NAMES.includes(containerId)) return;
  throw new CniError(
    ErrorCode.InvalidEnvironment,
    `Cannot remember container "${containerId}": CNI_CONTAINERID is the name of a folder of ours`,
  );
}

/** Has a delegate keep its interface's name though it moves up. */
function pinName(delegate: Delegate, index: number): Delegate {
  // The first cannot move, and only DEL knows the name that it has.
  if (index === 0) return delegate;
  const ifName = delegate.request.ifName || nameByPlace(index, "");
  return { ...delegate, request: { ...delegate.request, ifName } };
}

function readIfThere(path: string): Uint8Array | undefined {
  return unlessMissing(() =>
    // To read a pipe would be to wait for a writer.
    Deno.statSync(path).isFile ? Deno.readFileSync(path) : undefined
  );
}

/** Finds when a file was written, unless it is gone meanwhile, or cannot be read. */
function findTime(path: string): Date | undefined {
  return ifPossible(() => Deno.statSync(path).mtime) ?? undefined;
}

/** Lists files, without what is in folders and what is hidden. */
function listFiles(folder: string): string[] {
  const entries = unlessMissing(() => [...Deno.readDirSync(folder)]) ?? [];
  return entries
    .filter(({ isFile, name }) => isFile && !name.startsWith("."))
    .map(({ name }) => name);
}

/** Says whether a file begins as a list does, or is what a crash left of one. */
function looksLikeScratch(path: string): boolean {
  try {
    using file = Deno.openSync(path);
    const start = new Uint8Array(64);
    const length = file.readSync(start) ?? 0;
    const first = start.subarray(0, length).find((byte) => byte > SPACE);
    return first === undefined || first === OPENING_BRACKET;
  } catch {
    return false; // It is gone meanwhile, or cannot be read.
  }
}

const SPACE = 0x20, OPENING_BRACKET = 0x5b;
