/**
 * The daemon's socket, which is there for root only.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../../cni/error.ts";
import { deadline, pause, waitUntil } from "../../../cni/deadline.ts";
import type { Log } from "../../../cni/log.ts";
import { SOCKET_NAME } from "../../../plugins/multus/pod/daemon_protocol.ts";

/** How often it is looked whether the socket is still there, in milliseconds. */
const LOOK_MS = 5000;

/** What listens. */
export interface ApiSocketOptions {
  readonly folder: string;
  /** Answers; never throws. */
  readonly handle: (request: Request) => Promise<Response>;
  readonly log: Pick<Log, "info" | "warn">;
  /** As {@linkcode LOOK_MS}. */
  readonly lookMs?: number;
}

/** A server, and which file is its own. */
interface Listener {
  readonly server: Deno.HttpServer<Deno.UnixAddr>;
  readonly inode: number | null;
}

/**
 * A socket that appears at once as it shall be, in the place of any other: that
 * of a daemon which was killed, or of one which still runs and is then not asked
 * any more.
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
   * Listens.
   *
   * @throws {CniError} 5 if there can be no socket, or others could get at it
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

  /** Puts the socket back when somebody has removed it, until the signal. */
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
        // Those that it has accepted are answered.
        server.shutdown();
      } catch (error) {
        const reason = describeError(error);
        log.warn("Cannot put the socket back", { folder, reason });
      }
    }
  }

  /** Says whether somebody listens: we, or a daemon that was started later. */
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

  /** Removes the socket, and waits for what is being answered. */
  async close(withinMs: number): Promise<void> {
    // Plugins shall not find it any more.
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

/** Makes files of mode 0600 from the first moment: the folder may be open to all. */
function forOwnerOnly<T>(make: () => T): T {
  const before = Deno.umask(0o177);
  try {
    return make();
  } finally {
    Deno.umask(before);
  }
}

/**
 * Makes the folder, or uses it as it is: it may be one that others need, such as
 * /run.
 *
 * @throws {Error} If somebody else could replace the socket in it
 */
async function ensureFolder(folder: string): Promise<void> {
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  const { uid, mode } = await Deno.stat(folder);
  if (uid !== Deno.uid()) throw new Error(`it is the folder of user ${uid}`);
  if (isWritableByOthers(mode ?? 0)) {
    throw new Error("users other than its owner can write to it");
  }
}

/** In a folder with the sticky bit, as /tmp, they cannot touch what is ours. */
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
