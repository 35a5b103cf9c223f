/**
 * The daemon's socket, which only root can use.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../../cni/error.ts";
import { deadline, pause, waitUntil } from "../../../cni/deadline.ts";
import type { Log } from "../../../cni/log.ts";
import { SOCKET_NAME } from "../../../plugins/multus/pod/daemon_protocol.ts";

/** Interval between checks that the socket still exists, in milliseconds. */
const LOOK_MS = 5000;

/** Options of the socket. */
export interface ApiSocketOptions {
  readonly folder: string;
  /** Answers a request; never throws. */
  readonly handle: (request: Request) => Promise<Response>;
  readonly log: Pick<Log, "info" | "warn">;
  /** Like {@linkcode LOOK_MS}. */
  readonly lookMs?: number;
}

/** A server, and the identity of its socket's file. */
interface Listener {
  readonly server: Deno.HttpServer<Deno.UnixAddr>;
  readonly inode: number | null;
}

/**
 * A socket that appears atomically with its final mode. It replaces the socket
 * of a killed daemon, or of one that still runs and then gets no more requests.
 */
export class ApiSocket {
  readonly #options: ApiSocketOptions;
  readonly #path: string;
  #listener: Listener;
  #isTaken = false;

  private constructor(options: ApiSocketOptions, listener: Listener) {
    this.#options = options;
    this.#path = `${options.folder}/${SOCKET_NAME}`;
    this.#listener = listener;
  }

  /**
   * Opens the socket.
   *
   * @throws {CniError} 5 if the socket cannot be created, or would not be safe
   *   from other users
   */
  static async listen(options: ApiSocketOptions): Promise<ApiSocket> {
    const { folder } = options;
    try {
      return new ApiSocket(options, await listenIn(options));
    } catch (error) {
      throw new CniError(
        ErrorCode.IoFailure,
        `Cannot listen in "${folder}": ${describeError(error)}`,
      );
    }
  }

  /** Restores the socket when it was removed, until the signal. */
  async keepInPlace(signal: AbortSignal): Promise<void> {
    const { folder, log, lookMs = LOOK_MS } = this.#options;
    for (;;) {
      await pause(lookMs, signal);
      if (signal.aborted) return;
      try {
        if (await this.#isInPlace()) continue;
        const { server } = this.#listener;
        this.#listener = await listenIn(this.#options);
        log.info("The socket was gone, and is there again", { folder });
        // Accepted requests are still answered.
        server.shutdown();
      } catch (error) {
        const reason = describeError(error);
        log.warn("Cannot put the socket back", { folder, reason });
      }
    }
  }

  /**
   * Reports whether a daemon listens: this one, or one that was started later.
   */
  async #isInPlace(): Promise<boolean> {
    if (await this.#isOurs()) {
      this.#isTaken = false;
      return true;
    }
    if (!await isListening(this.#path)) return false;
    if (!this.#isTaken) {
      const { log } = this.#options;
      log.warn("Another daemon has taken the socket", { path: this.#path });
    }
    this.#isTaken = true;
    return true;
  }

  async #isOurs(): Promise<boolean> {
    return await findInode(this.#path) === this.#listener.inode;
  }

  /** Removes the socket, and waits for pending answers. */
  async close(withinMs: number): Promise<void> {
    // Plugins must no longer find it.
    if (await this.#isOurs()) await Deno.remove(this.#path).catch(() => {});
    const closed = this.#listener.server.shutdown();
    await waitUntil(closed, deadline(withinMs));
  }
}

async function listenIn(
  { folder, handle, log }: ApiSocketOptions,
): Promise<Listener> {
  await ensureFolder(folder);
  const random = crypto.randomUUID().slice(0, 8);
  const path = `${folder}/.${SOCKET_NAME}.${random}`;
  const server = forOwnerOnly(() =>
    Deno.serve({
      path,
      onListen(): void {},
      onError(error): Response {
        log.warn("Cannot answer", { error: describeError(error) });
        return new Response("", { status: 500 });
      },
    }, handle)
  );
  try {
    const inode = await findInode(path) ?? null;
    await Deno.rename(path, `${folder}/${SOCKET_NAME}`);
    return { server, inode };
  } catch (error) {
    await server.shutdown();
    throw error;
  }
}

/**
 * Creates files with mode 0600 from the start, because the folder may be open
 * to all.
 */
function forOwnerOnly<T>(make: () => T): T {
  const before = Deno.umask(0o177);
  try {
    return make();
  } finally {
    Deno.umask(before);
  }
}

/**
 * Creates the folder, or uses an existing one unchanged, because other programs
 * may need it, such as /run.
 *
 * @throws {Error} If another user could replace the socket in it
 */
async function ensureFolder(folder: string): Promise<void> {
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  const { uid, mode } = await Deno.stat(folder);
  if (uid !== Deno.uid()) throw new Error(`it is the folder of user ${uid}`);
  if (isWritableByOthers(mode ?? 0)) {
    throw new Error("users other than its owner can write to it");
  }
}

/**
 * In a folder with the sticky bit, such as /tmp, others cannot replace our
 * files.
 */
function isWritableByOthers(mode: number): boolean {
  return (mode & 0o022) !== 0 && (mode & 0o1000) === 0;
}

async function findInode(path: string): Promise<number | null | undefined> {
  try {
    return (await Deno.lstat(path)).ino;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

async function isListening(path: string): Promise<boolean> {
  try {
    using _connection = await Deno.connect({ transport: "unix", path });
    return true;
  } catch {
    return false;
  }
}
