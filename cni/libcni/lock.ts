/**
 * Locks that keep operations on one container apart, and garbage collection
 * from all others, between processes and within one.
 *
 * The specification forbids both at one time, and leaves it to the runtime to
 * see to it. The locks are flock(2) on files in one folder, so that they end
 * with the process that holds them, however it ends:
 *
 * - one file for each container that is locked, named by its ID, removed when
 *   it is unlocked
 * - `.all`: shared by all who have locked a container; exclusive during GC
 * - `.gate`: who waits for GC keeps others from sharing `.all` anew, or it
 *   might wait for ever
 *
 * What is in the files is for people only: the ID of the process that has the
 * lock. Nothing else may be in the folder.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { checkContainerId } from "../args.ts";
import { CniError, ErrorCode } from "../error.ts";
import { deadline } from "../deadline.ts";
import { ifPossible, withIoFailure } from "../io_failure.ts";
import type { Log } from "../log.ts";
import { DEFAULT_CACHE_DIR } from "./cache.ts";
import { LockFile, type LockMode, readIfLocked } from "./lock_file.ts";
import { type Patience, pollUntil, TurnQueues } from "./waiting.ts";

/** How long to wait for others at most, unless told otherwise, in ms. */
const LIMIT_MS = 5 * 60_000;

/** How to wait. */
export interface LockOptions {
  /** Ends the wait, if the limit does not end it first. */
  readonly signal?: AbortSignal;
  /** When to give up in any case, in ms; 5 minutes by default. */
  readonly limitMs?: number;
  /** Told after a few seconds who has the lock. */
  readonly log?: Log | undefined;
  /** When to tell, in ms; 5 s by default. */
  readonly noticeMs?: number;
}

const ALL = ".all", GATE = ".gate";

/**
 * Returns where the locks of a runtime are: beside its cache, which the Go
 * library does not look into.
 */
export function lockFolderOf(cacheDir: string = DEFAULT_CACHE_DIR): string {
  return join(cacheDir || DEFAULT_CACHE_DIR, "locks");
}

/**
 * The locks of one runtime.
 *
 * They do not nest: who holds one and asks for another may wait for itself.
 */
export class AttachmentLocks {
  readonly #folder: string;
  readonly #queues = new TurnQueues();

  /**
   * Keeps them in a folder.
   *
   * @param folder Made when it is needed
   */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * Waits until nobody else is at work on a container, and no GC is under way.
   * Within this process it is first come, first served.
   *
   * @returns The lock, held until disposal
   * @throws {CniError} 3 or 4 if it is no container ID, 5 if the folder cannot
   *   be used, 11 at the signal or limit
   */
  async lockContainer(
    containerId: string,
    options: LockOptions = {},
  ): Promise<Disposable> {
    checkContainerId(containerId);
    const what = `container "${containerId}"`;
    const wait = this.#createWait(what, options);
    const waitFor = (...names: string[]): Patience => wait(() => names);
    using stack = new DisposableStack();
    const own = waitFor(containerId), gate = waitFor(GATE);
    stack.use(await this.#queues.takeTurn(containerId, own));
    // The container comes first: who waits for it must not keep GC waiting.
    stack.use(await pollUntil(() => this.#tryContainer(containerId), own));
    stack.use(await pollUntil(() => this.#tryShare(), gate));
    return stack.move();
  }

  /**
   * Waits until nobody is at work on any container, for GC. Those who ask for a
   * container from now on wait until this lock ends.
   *
   * @returns The lock, held until disposal
   * @throws {CniError} 5 if the folder cannot be used, 11 at the signal or
   *   limit
   */
  async lockExclusively(options: LockOptions = {}): Promise<Disposable> {
    const waitFor = this.#createWait("all containers", options);
    using stack = new DisposableStack();
    const gate = waitFor(() => [GATE]);
    const containers = waitFor(() => this.#listContainers());
    stack.use(await this.#queues.takeTurn(GATE, gate));
    stack.use(await pollUntil(() => this.#tryGate(), gate));
    stack.use(await pollUntil(() => this.#tryAll(), containers));
    this.#sweep();
    return stack.move();
  }

  /** Prepares to wait for files that others may have locked. */
  #createWait(
    what: string,
    { signal: parent, limitMs = LIMIT_MS, log, ...options }: LockOptions,
  ): (listNames: () => string[]) => Patience {
    const signal = deadline(limitMs, parent);
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

  #tryContainer(containerId: string): Disposable | undefined {
    const lock = this.#tryLock(containerId, { exclusive: true });
    if (lock === undefined) return undefined;
    sign(lock);
    return { [Symbol.dispose]: () => lock.remove() };
  }

  /** Joins those who hold a container, unless GC is under way or waits. */
  #tryShare(): Disposable | undefined {
    using gate = this.#tryLock(GATE, { exclusive: false });
    return gate && this.#tryLock(ALL, { exclusive: false });
  }

  #tryGate(): Disposable | undefined {
    const lock = this.#tryLock(GATE, { exclusive: true });
    if (lock !== undefined) sign(lock);
    return lock;
  }

  #tryAll(): Disposable | undefined {
    return this.#tryLock(ALL, { exclusive: true });
  }

  #tryLock(name: string, mode: LockMode): LockFile | undefined {
    const path = join(this.#folder, name);
    return withIoFailure(`lock "${path}"`, () => {
      Deno.mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      return LockFile.tryOpen(path, mode);
    });
  }

  /** Removes the files of processes that were killed, as far as it can. */
  #sweep(): void {
    for (const name of this.#listContainers()) {
      this.#tryLock(name, { exclusive: true })?.remove();
    }
  }

  #listContainers(): string[] {
    // Whoever needs the folder will say what is wrong with it.
    const entries = ifPossible(() => [...Deno.readDirSync(this.#folder)]) ?? [];
    return entries.map(({ name }) => name)
      .filter((name) => !name.startsWith(".")).sort();
  }

  /** Makes the error that says who has what was waited for. */
  #busy(what: string, names: readonly string[], signal: AbortSignal): CniError {
    const holders = this.#describeHolders(names);
    return new CniError(
      ErrorCode.TryAgainLater,
      `Cannot lock ${what}: ` +
        (holders === "" ? "it is in use" : `held by ${holders}`),
      { cause: signal.reason },
    );
  }

  #describeHolders(names: readonly string[]): string {
    return names.flatMap((name) => {
      const processId = readIfLocked(join(this.#folder, name)).trim();
      if (processId === "") return [];
      const work = name === GATE ? "garbage collection" : `container "${name}"`;
      return [`process ${processId} (${work})`];
    }).join(", ");
  }
}

/** Writes who has a lock; it is no less locked if there is no space for that. */
function sign(lock: LockFile): void {
  try {
    lock.write(new TextEncoder().encode(`${Deno.pid}\n`));
  } catch {
    // Nobody will be told who has it.
  }
}
