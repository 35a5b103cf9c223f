/**
 * The file of a daemon's socket: it appears immediately in its final form, in place
 * of an earlier daemon's socket, is restored if it is removed, and can be taken over
 * by a later daemon.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../error.ts";
import { FileLock } from "../files/lock.ts";
import { ifPossible } from "../files/io.ts";

/** The lock that daemons hold while they put a socket in place or remove it. */
const LOCK_NAME = ".lock";

/** The listener of a socket. */
export interface Listener {
  /**
   * Accepts the waiting connections, and stops listening. Existing connections stay
   * open.
   */
  close(): void | Promise<void>;
}

/** The state of a socket's name. */
export type SocketState = "ours" | "restored" | "another daemon's";

/** Options of a {@linkcode SocketFile}. */
export interface SocketFileOptions {
  /** Must belong to this user; created with mode 0700 if it does not exist. */
  readonly directory: string;
  readonly name: string;
  /** Listens at a path, with a socket for this user only. */
  readonly listen: (path: string) => Listener;
}

/** A listening socket with a name. */
export class SocketFile {
  readonly #options: SocketFileOptions;
  #listener: Listener;
  #inode: number;

  private constructor(
    options: SocketFileOptions,
    { listener, inode }: { listener: Listener; inode: number },
  ) {
    this.#options = options;
    this.#listener = listener;
    this.#inode = inode;
  }

  /**
   * Listens, and takes over the name from any other daemon.
   *
   * @throws {CniError} 5 if this fails, or a different user could replace the socket
   */
  static async create(options: SocketFileOptions): Promise<SocketFile> {
    try {
      return new SocketFile(options, await putInPlace(options));
    } catch (error) {
      throw new CniError(
        ErrorCode.IoFailure,
        `Cannot listen in "${options.directory}": ${describeError(error)}`,
      );
    }
  }

  /** Path of the socket. */
  get path(): string {
    return pathOf(this.#options);
  }

  /**
   * Listens again under the name if no daemon uses it. A socket on which no process
   * listens counts as missing.
   *
   * @throws {Error} If this fails, or it cannot be determined whether a process
   * listens
   */
  async keepInPlace(): Promise<SocketState> {
    if (findInode(this.path) === this.#inode) return "ours";
    ensureDirectory(this.#options.directory);
    // A new daemon might be about to take over the name.
    using _lock = await lock(this.#options.directory);
    if (await isListening(this.path)) return "another daemon's";
    const before = this.#listener;
    const { listener, inode } = listenAndRename(this.#options);
    [this.#listener, this.#inode] = [listener, inode];
    before.close();
    return "restored";
  }

  /** Removes the file, unless it already belongs to a different daemon. */
  async remove(): Promise<void> {
    using _lock = await lock(this.#options.directory).catch(() => undefined);
    if (findInode(this.path) !== this.#inode) return;
    ifPossible(() => Deno.removeSync(this.path));
  }

  /** Stops listening. */
  async close(): Promise<void> {
    await this.#listener.close();
  }
}

function pathOf({ directory, name }: SocketFileOptions): string {
  return `${directory}/${name}`;
}

function lock(directory: string): Promise<FileLock> {
  return FileLock.acquire(`${directory}/${LOCK_NAME}`, 0o600);
}

async function putInPlace(
  options: SocketFileOptions,
): Promise<{ listener: Listener; inode: number }> {
  ensureDirectory(options.directory);
  using _lock = await lock(options.directory);
  return listenAndRename(options);
}

function listenAndRename(
  options: SocketFileOptions,
): { listener: Listener; inode: number } {
  const { directory, name, listen } = options;
  const path = `${directory}/.${name}.new`;
  // The socket of a daemon that was killed at this point.
  ifPossible(() => Deno.removeSync(path));
  const listener = listen(path);
  try {
    const { ino } = Deno.lstatSync(path);
    if (ino === null) throw new Error("the socket has no inode");
    Deno.renameSync(path, pathOf(options));
    return { listener, inode: ino };
  } catch (error) {
    listener.close();
    throw error;
  }
}

/**
 * Creates the directory. An existing directory is not changed, because other programs
 * might use it, such as /run.
 *
 * @throws {Error} If a different user could replace a socket in it
 */
function ensureDirectory(directory: string): void {
  Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
  const { uid, mode } = Deno.statSync(directory);
  if (uid !== Deno.uid()) throw new Error(`it belongs to user ${uid}`);
  // In a directory with the sticky bit, other users cannot replace our files.
  const isShared = ((mode ?? 0) & 0o022) !== 0 && ((mode ?? 0) & 0o1000) === 0;
  if (isShared) throw new Error("users other than its owner can write to it");
}

function findInode(path: string): number | undefined {
  try {
    return Deno.lstatSync(path).ino ?? undefined;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/**
 * Reports whether a process listens at a path.
 *
 * @throws {Error} If the connection fails for a different reason than a missing
 * listener
 */
async function isListening(path: string): Promise<boolean> {
  try {
    using _connection = await Deno.connect({ transport: "unix", path });
    return true;
  } catch (error) {
    // The listener's backlog is full.
    if (error instanceof Deno.errors.WouldBlock) return true;
    const isMissing = error instanceof Deno.errors.NotFound ||
      error instanceof Deno.errors.ConnectionRefused;
    if (isMissing) return false;
    throw error;
  }
}
