/**
 * Locks that serialize the operations on a container, and keep all other operations
 * waiting during garbage collection, across processes and within a process.
 *
 * The specification requires this of the runtime. The locks are flock(2) on
 * files in one directory, so they end with the process that holds them, however
 * it ends:
 *
 * - a file for each locked container, named by its ID and removed when it is
 *   unlocked
 * - `.all`: shared while a container is locked, exclusive during GC
 * - `.gate`: GC locks it while it waits for `.all`, so that new operations wait and
 *   cannot delay GC forever. GC unlocks it now and then, because one slow operation
 *   must not stop all other operations
 *
 * The files contain the ID of the process that holds the lock, for people to
 * read. The directory must contain nothing else.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { checkContainerId } from "../cni/call/args.ts";
import {
  CniError,
  describeError,
  ErrorCode,
  toCniError,
} from "../base/error.ts";
import { JoinedSignal, pause } from "../base/deadline.ts";
import { ifPossible, withIoFailure } from "../base/files/io.ts";
import { yieldIfLong } from "../base/long_wait.ts";
import type { Log } from "../base/log/log.ts";
import { DEFAULT_CACHE_DIR } from "./cache.ts";
import { describeHolders } from "../base/files/lock_holders.ts";
import { FileLock, type LockTry, readIfLocked } from "../base/files/lock.ts";
import { KeyedQueue, type Slot } from "../base/queue.ts";
import { type PollOptions, pollUntil } from "../base/waiting.ts";

/** Default time limit of a wait, in ms. */
const LIMIT_MS = 5 * 60_000;

/**
 * How long GC holds the gate at a time, in ms: less than a runtime's time limit of ADD.
 */
const GATE_MS = 10_000;
/** How long the gate stays open before GC locks it again, in ms. */
const PASS_MS = 1000;

/** Options of a wait. */
export interface LockOptions {
  /** Ends the wait early. */
  readonly signal?: AbortSignal;
  /** Time limit in ms; 5 minutes by default. */
  readonly limitMs?: number;
  /** After a few seconds, receives a line that names the holders of the lock. */
  readonly log?: Log | undefined;
  /** When to log that line, in ms; 5 s by default. */
  readonly noticeMs?: number;
  /** How long `lockExclusively` holds the gate at a time, in ms; 10 s by default. */
  readonly gateMs?: number;
}

const ALL = ".all", GATE = ".gate";

/**
 * Returns the directory of a runtime's locks. It is next to the cache, where
 * the Go library does not look.
 */
export function lockDirectoryOf(cacheDir: string = DEFAULT_CACHE_DIR): string {
  return join(cacheDir || DEFAULT_CACHE_DIR, "locks");
}

/**
 * Locks a container, or continues without a lock that cannot be created: a container
 * must be detachable even if the disk is full or read-only.
 *
 * @throws {CniError} The other errors of `lock`
 */
export async function lockToDetach<T>(
  containerId: string,
  log: Log,
  lock: () => Promise<T>,
): Promise<T | undefined> {
  try {
    return await lock();
  } catch (error) {
    if (toCniError(error).code !== ErrorCode.IoFailure) throw error;
    log.warn("Continuing without the lock", {
      containerId,
      error: describeError(error),
    });
    return undefined;
  }
}

/** How {@linkcode lockByTurns} waits. */
export interface Turns {
  /** How long an attempt lasts, in ms. Meanwhile, other operations wait. */
  readonly attemptMs: number;
  /** The pause between two attempts, in ms. Meanwhile, other operations run. */
  readonly passMs: number;
  /** Ends the wait. */
  readonly signal: AbortSignal;
  /** Receives the error of each attempt that a pause follows. */
  readonly onBusy?: (error: unknown) => void;
}

/**
 * Tries repeatedly to lock, with a pause between two attempts, because one slow
 * operation must not stop all other operations.
 *
 * @param attempt Holds no lock if it fails
 * @throws The error of an attempt. An error with code 11 is only thrown on the signal
 */
export async function lockByTurns(
  attempt: (signal: AbortSignal) => Promise<Disposable>,
  { attemptMs, passMs, signal, onBusy }: Turns,
): Promise<Disposable> {
  for (;;) {
    using end = new JoinedSignal(attemptMs, signal);
    try {
      return await attempt(end.signal);
    } catch (error) {
      if (toCniError(error).code !== ErrorCode.TryAgainLater) throw error;
      if (!signal.aborted) onBusy?.(error);
      await yieldIfLong(() => pause(passMs, signal));
      if (signal.aborted) throw error;
    }
  }
}

/**
 * The container locks of one runtime.
 *
 * The locks do not nest: a caller that holds a lock and requests another one can wait
 * for itself.
 */
export class AttachmentLocks {
  readonly #directory: string;
  readonly #queue = new KeyedQueue();

  /**
   * Keeps the lock files in a directory.
   *
   * @param directory Created on first use
   */
  constructor(directory: string) {
    this.#directory = directory;
  }

  /**
   * Waits until no other operation on the container and no GC is running.
   * Within this process, requests are served in order.
   *
   * @returns The lock, held until disposal
   * @throws {CniError} 3 or 4 if the container ID is invalid, 5 if the
   *   directory
   *   cannot be used, 11 on the signal or after the limit
   */
  async lockContainer(
    containerId: string,
    options: LockOptions = {},
  ): Promise<Disposable> {
    checkContainerId(containerId);
    const what = `container "${containerId}"`;
    using limit = limitOf(options);
    const wait = this.#createWait(what, options, limit);
    const waitFor = (...names: string[]): PollOptions => wait(() => names);
    using stack = new DisposableStack();
    const own = waitFor(containerId), gate = waitFor(GATE);
    stack.use(await this.#waitForTurn(containerId, own));
    // The container comes first, so that waiting for it does not delay GC.
    stack.use(await pollUntil(() => this.#tryContainer(containerId), own));
    stack.use(await pollUntil(() => this.#tryShare(), gate));
    return stack.move();
  }

  /**
   * Waits until no operation on any container is running, for GC. Later
   * requests for a container wait until this lock is released, or pass while this
   * waits for a slow operation: after 10 s, for a second, and so on.
   *
   * @returns The lock, held until disposal
   * @throws {CniError} 5 if the directory cannot be used, 11 on the signal or
   *   after the limit
   */
  async lockExclusively(options: LockOptions = {}): Promise<Disposable> {
    using limit = limitOf(options);
    using stack = new DisposableStack();
    const wait = this.#createWait("all containers", options, limit);
    stack.use(await this.#waitForTurn(GATE, wait(() => [GATE])));
    const all = await lockByTurns(
      (signal) => this.#lockAll({ ...options, signal }),
      {
        attemptMs: options.gateMs ?? GATE_MS,
        passMs: PASS_MS,
        signal: limit.signal,
      },
    );
    stack.use(all);
    return stack.move();
  }

  /** Locks the gate, and then all containers. */
  async #lockAll(
    options: LockOptions & { readonly signal: AbortSignal },
  ): Promise<Disposable> {
    const wait = this.#createWait("all containers", options, options);
    using held = new DisposableStack();
    held.use(await pollUntil(() => this.#tryGate(), wait(() => [GATE])));
    const containers = wait(() => this.#listContainers());
    held.use(await pollUntil(() => this.#tryLock(ALL), containers));
    this.sweep();
    return held.move();
  }

  /** Prepares a wait for locked files. */
  #createWait(
    what: string,
    { log, ...options }: LockOptions,
    { signal }: Pick<JoinedSignal, "signal">,
  ): (listNames: () => string[]) => PollOptions {
    return (listNames) => ({
      ...options,
      signal,
      giveUp: () => this.#busy(what, listNames(), signal),
      notice: () =>
        log?.warn(`Waiting for the lock on ${what}`, {
          holder: this.#describeHolders(listNames()),
        }),
    });
  }

  async #waitForTurn(key: string, options: PollOptions): Promise<Slot> {
    const slot = await this.#queue.wait(key, options.signal);
    if (slot === undefined) throw options.giveUp();
    return slot;
  }

  #tryContainer(containerId: string): Disposable | undefined {
    const lock = this.#tryLock(containerId);
    if (lock === undefined) return undefined;
    sign(lock);
    return { [Symbol.dispose]: () => lock.remove() };
  }

  /** Shares `.all`, unless GC is running or waiting. */
  #tryShare(): Disposable | undefined {
    using gate = this.#tryLock(GATE, { shared: true });
    return gate && this.#tryLock(ALL, { shared: true });
  }

  #tryGate(): Disposable | undefined {
    const lock = this.#tryLock(GATE);
    if (lock !== undefined) sign(lock);
    return lock;
  }

  #tryLock(name: string, options: LockTry = {}): FileLock | undefined {
    const path = join(this.#directory, name);
    return withIoFailure(`lock "${path}"`, () => {
      try {
        return FileLock.tryAcquire(path, options);
      } catch (error) {
        if (!(error instanceof Deno.errors.NotFound)) throw error;
        Deno.mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
        return FileLock.tryAcquire(path, options);
      }
    });
  }

  /** Removes the files of processes that were killed, as far as possible. */
  sweep(): void {
    for (const name of this.#listContainers()) {
      // On a read-only file system they stay.
      ifPossible(() => this.#tryLock(name)?.remove());
    }
  }

  #listContainers(): string[] {
    // The next user of the directory reports what is wrong with it.
    const entries = ifPossible(() => [...Deno.readDirSync(this.#directory)]) ??
      [];
    return entries.map(({ name }) => name)
      .filter((name) => !name.startsWith(".")).sort();
  }

  /** Creates the error that names the holders of the lock. */
  #busy(what: string, names: readonly string[], signal: AbortSignal): CniError {
    const holders = this.#describeHolders(names);
    const details = names.flatMap((name) =>
      describeFile(this.#directory, name)
    );
    return new CniError(
      ErrorCode.TryAgainLater,
      `Cannot lock ${what}: ` +
        (holders === "" ? "it is in use" : `held by ${holders}`),
      { details: details.join("; "), cause: signal.reason },
    );
  }

  #describeHolders(names: readonly string[]): string {
    return names.flatMap((name) => {
      const processId = readIfLocked(join(this.#directory, name)).trim();
      if (processId === "") return [];
      const work = name === GATE ? "garbage collection" : `container "${name}"`;
      return [`process ${processId} (${work})`];
    }).join(", ");
  }
}

/** Returns the processes that hold a lock, according to the kernel. */
function describeFile(directory: string, name: string): string[] {
  const path = join(directory, name);
  if (readIfLocked(path) === "") return [];
  const file = ifPossible(() => Deno.statSync(path));
  return file ? [`"${path}" is held by ${describeHolders(file)}`] : [];
}

/** Writes the holder's process ID. The lock is valid even if the disk is full. */
function sign(lock: FileLock): void {
  try {
    lock.write(new TextEncoder().encode(`${Deno.pid}\n`));
  } catch {
    // The only loss is the name of the holder in messages.
  }
}

function limitOf({ signal, limitMs = LIMIT_MS }: LockOptions): JoinedSignal {
  return new JoinedSignal(limitMs, signal);
}
