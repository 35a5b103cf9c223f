/**
 * The records of earlier and later ADDs and DELs of a chain.
 *
 * An ADD holds a lock on the attachment's record while it runs. GC skips a locked
 * attachment, and DEL waits for the lock.
 *
 * If a runtime's time limit expires, it kills the chain, but not plugins in separate
 * processes. Such a plugin continues, and its objects would remain after DEL.
 * Therefore it holds the lock as well.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import { JoinedSignal, pause } from "../../base/deadline.ts";
import { ifPossible, isTaken, removeQuietly } from "../../base/files/io.ts";
import { describeHolders } from "../../base/files/lock_holders.ts";
import { yieldIfLong } from "../../base/long_wait.ts";
import type { Starter } from "../../cni/call/context.ts";
import { isErrno } from "../../ffi/errno.ts";
import * as libc from "../../ffi/libc.ts";
import { allSteps, Steps, type StepsState } from "../../libcni/steps.ts";
import {
  DIRECTORY,
  type Recorded,
  RecordFile,
  recordPathOf,
} from "./record.ts";

/** Time limit of a wait, and pause between two attempts, in ms. */
const LOCK_TIMEOUT_MS = 20_000, PAUSE_MS = 20;
/** How long a different process can inspect a record, in ms. */
const LOOK_MS = 200;
/** Maximum number of attempts if the record is replaced each time. */
const ATTEMPTS = 100;
/** A younger empty record might be about to be written, in ms. */
const YOUNG_MS = 60_000;

/** An ADD in progress, until disposal. */
export class RunningAdd implements Disposable {
  readonly #recorded: Recorded;
  readonly #file: RecordFile | undefined;
  #isLocked = false;
  #isDone = false;
  /** The plugins that must be undone. */
  readonly steps: Steps;

  private constructor(recorded: Recorded, file: RecordFile | undefined) {
    this.#recorded = recorded;
    this.#file = file;
    this.steps = new Steps(undefined, (state) => {
      this.#tryLock();
      file?.write(state);
    });
  }

  /** Locks the record, unless a DEL holds it. */
  #tryLock(): boolean {
    const file = this.#file;
    return this.#isLocked ||= file !== undefined && libc.tryLock(file.fd);
  }

  /**
   * Creates the record. If that is impossible, ADD continues without a record.
   *
   * @returns Undefined if there is a record of an earlier ADD or DEL
   */
  static begin(recorded: Recorded): RunningAdd | undefined {
    const file = tryCreate(recorded);
    return file === "exists" ? undefined : new RunningAdd(recorded, file);
  }

  /** Starts an ADD whose record belongs to a different call, or cannot be opened. */
  static withoutRecord(recorded: Recorded): RunningAdd {
    const path = recordPathOf(recorded);
    recorded.log.warn("Continuing without a record", { path });
    return new RunningAdd(recorded, undefined);
  }

  /**
   * Locks the record before the first plugin starts. Waits for a moment, because a
   * search for orphans also locks records while it inspects them.
   */
  async begun(): Promise<void> {
    if (this.#file === undefined) return;
    await waitForLock(this.#recorded, () => this.#tryLock(), LOOK_MS);
  }

  /**
   * Waits for the record's lock. If that is impossible, processes start without it.
   *
   * @param outer Locks the record of the chain that contains this chain
   * @returns A function that starts processes that also hold the locks
   */
  async lock(
    outer?: () => Promise<Starter | void> | undefined,
  ): Promise<Starter | void> {
    const startOuter = await outer?.();
    const file = this.#file;
    const isLocked = file !== undefined &&
      await waitForLock(this.#recorded, () => this.#tryLock()) === true;
    if (!isLocked) return startOuter;
    return (start) =>
      share(file.fd, () => startOuter ? startOuter(start) : start());
  }

  /** Removes the record at disposal, because DEL must run all plugins. */
  finish(): void {
    this.#isDone = true;
  }

  /**
   * Unlocks in this process; the lock is released when the last process exits.
   */
  [Symbol.dispose](): void {
    using file = this.#file;
    if (this.#isDone) file?.removeNow();
  }
}

/** @returns Undefined if the record cannot be created */
function tryCreate(recorded: Recorded): RecordFile | "exists" | undefined {
  try {
    return RecordFile.create(recorded) ?? "exists";
  } catch (error) {
    // An ordinary user, or a node whose /run is read-only.
    const isUsual = isErrno(error, "EACCES") || isErrno(error, "EROFS") ||
      error instanceof Deno.errors.PermissionDenied;
    recorded.log[isUsual ? "debug" : "warn"]("Continuing without a record", {
      path: recordPathOf(recorded),
      error: describeError(error),
    });
    return undefined;
  }
}

/**
 * Starts a child that shares a lock.
 *
 * Source: flock(2), on descriptors of the same open file description.
 *
 * @param start Must start the child before it returns. Otherwise, children of other
 * calls in this process would get the lock
 */
function share<T>(fd: number, start: () => T): T {
  libc.setCloseOnExec(fd, false);
  try {
    return start();
  } finally {
    libc.setCloseOnExec(fd, true);
  }
}

/** The record of an earlier ADD or DEL, locked until disposal. */
export class Left implements Disposable {
  readonly #recorded: Recorded;
  #file: RecordFile | undefined;
  /** The plugins that must be undone. */
  readonly steps: Steps;

  /** @param file The record; undefined without a record */
  constructor(recorded: Recorded, file: RecordFile | undefined) {
    this.#recorded = recorded;
    this.#file = file;
    const keep = (state: StepsState): void => this.#write(state);
    const state = file?.read();
    this.steps = state === undefined
      ? allSteps(recorded.plugins, keep)
      : new Steps(state, keep);
  }

  #write(state: StepsState): void {
    if (this.#file === undefined) {
      const file = tryCreate(this.#recorded);
      // A different DEL of the attachment is running, and has found the same state.
      if (file === "exists") return;
      this.#file = file;
    }
    this.#file?.write(state);
  }

  /** Removes the record, because nothing remains. */
  remove(): void {
    this.#file?.remove();
  }

  /** Unlocks. */
  [Symbol.dispose](): void {
    this.#file?.[Symbol.dispose]();
  }
}

/** Finds the plugins that DEL must run; undefined if it must skip the attachment. */
export type FindToDelete = (recorded: Recorded) => Promise<Left | undefined>;

/**
 * Finds the plugins that DEL must run: the recorded plugins, or all plugins without a
 * record.
 *
 * @throws {CniError} 11, see {@linkcode findLeft}
 */
export async function findToDelete(recorded: Recorded): Promise<Left> {
  return await findLeft(recorded, "delete") ?? new Left(recorded, undefined);
}

/**
 * The reason for skipping an attachment: a different call uses it, has changed its
 * record, or has removed the record.
 * record again, or has removed the record.
 */
export type Kept = "in use" | "changed" | "gone";

/**
 * Reads a record without waiting. An attachment that is in use is logged.
 *
 * @param since When the record was last changed
 * @throws {SyscallError} If the record cannot be opened
 */
export function findUnused(recorded: Recorded, since: Date): Left | Kept {
  using stack = new DisposableStack();
  const file = openUnused(recorded);
  if (typeof file === "string") return file;
  const left = stack.use(new Left(recorded, file));
  if (file.since?.getTime() !== since.getTime()) return "changed";
  stack.move();
  return left;
}

function openUnused(recorded: Recorded): RecordFile | "in use" | "gone" {
  try {
    const file = tryOpen(recorded);
    if (file !== undefined) return file;
  } catch (error) {
    if (isErrno(error, "ENOENT")) return "gone";
    throw error;
  }
  const { containerId, ifName } = recorded.args;
  const path = recordPathOf(recorded);
  const info = ifPossible(() => Deno.statSync(path));
  recorded.log.warn("Keeping an attachment that is in use", {
    containerId,
    ifName,
    holder: info && describeHolders(info),
  });
  return "in use";
}

/**
 * Reads the record of earlier ADDs and DELs of the attachment, and waits for
 * processes of a killed ADD. After the time limit, DEL continues and deletes as much
 * as possible.
 *
 * @param action The action that is impossible while they run
 * @returns Undefined without a record
 * @throws {CniError} 11 if the call's own time limit expires first, or at the time
 * limit in ADD
 */
export async function findLeft(
  recorded: Recorded,
  action: "add" | "delete",
): Promise<Left | undefined> {
  const path = recordPathOf(recorded);
  // The common case: no record.
  if (!isTaken(path)) return undefined;
  let file: RecordFile | "busy";
  try {
    file = await waitForLock(recorded, () => tryOpen(recorded)) ?? "busy";
  } catch (error) {
    if (!isErrno(error, "ENOENT")) {
      recorded.log.warn("Continuing without a record", {
        path,
        error: describeError(error),
      });
    }
    return undefined;
  }
  if (file !== "busy") return new Left(recorded, file);
  if (recorded.signal?.aborted || action === "add") {
    throw stillRuns(action, path);
  }
  recorded.log.warn(
    "Continuing although an earlier ADD, or a plugin that it started, is still running",
  );
  const open = ifPossible(() => RecordFile.open(recorded));
  return open && new Left(recorded, open);
}

function stillRuns(what: "add" | "delete", path: string): CniError {
  const file = ifPossible(() => Deno.statSync(path));
  return new CniError(
    ErrorCode.TryAgainLater,
    `Cannot ${what}: an earlier ADD, or a plugin that it started, is still running`,
    file && { details: `"${path}" is held by ${describeHolders(file)}` },
  );
}

/**
 * Opens and locks the file with this name.
 *
 * @returns Undefined if another process holds the lock
 * @throws {SyscallError} ENOENT
 */
function tryOpen(recorded: Recorded): RecordFile | undefined {
  for (let count = 0; count < ATTEMPTS; count++) {
    using stack = new DisposableStack();
    const file = stack.use(RecordFile.open(recorded));
    if (!libc.tryLock(file.fd)) return undefined;
    // The previous holder might have removed the file in the meantime.
    if (!file.isInPlace) continue;
    stack.move();
    return file;
  }
  const path = recordPathOf(recorded);
  throw new Error(
    `Cannot lock "${path}": another program keeps replacing the file`,
  );
}

/**
 * Removes empty files of processes that were killed before they wrote, and files that
 * were created after the container's last DEL.
 */
export function sweepEmpty(directory: string = DIRECTORY): void {
  const isOld = ({ mtime }: Deno.FileInfo): boolean =>
    Math.abs(Date.now() - (mtime?.getTime() ?? 0)) > YOUNG_MS;
  const entries = ifPossible(() => [...Deno.readDirSync(directory)]) ?? [];
  for (const { name } of entries) {
    const path = join(directory, name);
    const info = ifPossible(() => Deno.lstatSync(path));
    if (info?.isFile && info.size === 0 && isOld(info)) removeQuietly(path);
  }
}

/** @returns Undefined if the lock stays busy */
async function waitForLock<T>(
  { signal }: Recorded,
  attempt: () => T | undefined | false,
  timeoutMs = LOCK_TIMEOUT_MS,
): Promise<T | undefined> {
  const first = attempt();
  if (first) return first;
  return await yieldIfLong(() => retryLock(attempt, timeoutMs, signal));
}

async function retryLock<T>(
  attempt: () => T | undefined | false,
  timeoutMs: number,
  signal: AbortSignal | undefined,
): Promise<T | undefined> {
  using end = new JoinedSignal(timeoutMs, signal);
  while (!end.signal.aborted) {
    await pause(PAUSE_MS, end.signal);
    const later = attempt();
    if (later) return later;
  }
  return undefined;
}
