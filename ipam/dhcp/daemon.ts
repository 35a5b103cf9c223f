/**
 * The DHCP daemon: gets leases for calls of the plugin dhcp, and keeps them.
 *
 * @module
 */

import {
  CniError,
  describeError,
  ErrorCode,
  toCniError,
} from "../../base/error.ts";
import { JoinedSignal, waitUntil } from "../../base/deadline.ts";
import { removeQuietly, withIoFailure } from "../../base/files/io.ts";
import { FileLock } from "../../base/files/lock.ts";
import type { Log } from "../../base/log/log.ts";
import { listedTest } from "../../cni/config/types.ts";
import { Fd } from "../../ffi/file/fd.ts";
import type { DaemonAnswer, DaemonRequest } from "./ask.ts";
import type { Attachment } from "../../cni/config/types.ts";
import type { Lease } from "./lease.ts";
import { LeaseDirectory, nameOf } from "./lease_directory.ts";
import {
  PrivateSocket,
  type RequestExchange,
} from "../../base/service/private_socket.ts";
import { KeyedQueue } from "../../base/queue.ts";
import type { ServerConnection } from "../../base/service/unix_server.ts";
import {
  type ClientOptions,
  DeclineLimit,
  DEFAULT_TIMING,
  ended,
} from "./client.ts";
import { KeptLease, type LeaseContext } from "./kept_lease.ts";

/** Options of {@linkcode runDhcp}. */
export interface DhcpOptions extends ClientOptions {
  /** Path of the socket. */
  readonly socket: string;
  /** Descriptor of a socket that the service manager has opened. */
  readonly inherited?: number | undefined;
  /** Prefix of all paths; "" for none. */
  readonly hostPrefix: string;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Called when it listens. */
  readonly onReady?: () => void;
}

/**
 * Runs the daemon in a process that also does other work, until disposal. If it
 * cannot, the other work continues.
 */
export function startDhcp(socket: string, log: Log): AsyncDisposable {
  const end = new AbortController();
  const own = { broadcast: false, hostPrefix: "", signal: end.signal };
  const running = runDhcp({ ...DEFAULT_TIMING, ...own, socket, log })
    .catch((error) =>
      log.error("Cannot serve the plugin dhcp", { error: describeError(error) })
    );
  return {
    async [Symbol.asyncDispose](): Promise<void> {
      end.abort();
      await running;
    },
  };
}

/** Pause between the questions for two leases after a restart, in ms. */
const SPREAD_MS = 20;

/**
 * Runs the daemon until the signal. The leases remain for the next daemon.
 *
 * @throws {CniError} 5 if it cannot listen
 */
export async function runDhcp(options: DhcpOptions): Promise<void> {
  const { hostPrefix, inherited, log, signal } = options;
  const path = hostPrefix + options.socket;
  const directory = new LeaseDirectory(path);
  makeDirectory(directory.path);
  using _lock = await lockDirectory(directory.path, options);
  if (signal.aborted) return;
  const socket = new PrivateSocket({
    what: "a request for a lease",
    log,
    begin: (connection, onEnded) =>
      new Conversation(connection, {
        serve: (request, signal) => leases.serve(request, signal),
        onEnded,
      }),
  });
  if (inherited === undefined) await removeStale(path);
  const server = listen(
    socket,
    inherited === undefined ? path : new Fd(inherited),
  );
  const leases = new Leases({ ...options, directory, events: server.events });
  options.onReady?.();
  log.info("listening", { socket: path, leases: leases.size });
  await waitUntil(new Promise<never>(() => {}), signal);
  // Calls that wait for a lease fail now, and their answers are sent.
  const closing = socket.close();
  await leases.stop();
  await closing;
  // The service manager keeps its socket.
  if (inherited !== undefined) return;
  removeQuietly(path);
  server.close();
  await socket.close();
  await server.closed;
}

/** @throws {CniError} 5 if it cannot be made */
function makeDirectory(path: string): void {
  withIoFailure(
    `make the directory "${path}"`,
    () => Deno.mkdirSync(path, { recursive: true, mode: 0o700 }),
  );
}

async function lockDirectory(
  directory: string,
  { log, signal }: DhcpOptions,
): Promise<FileLock | undefined> {
  const wait = { limitMs: Infinity, signal, log, what: "the DHCP leases" };
  try {
    return await FileLock.acquire(`${directory}/.lock`, 0o600, wait);
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  }
}

/** @throws {CniError} 5 if a third-party program listens: a daemon of this project would have the lock */
async function removeStale(path: string): Promise<void> {
  let connection: Deno.UnixConn;
  try {
    connection = await Deno.connect({ transport: "unix", path });
  } catch {
    return removeQuietly(path);
  }
  connection.close();
  throw new CniError(
    ErrorCode.IoFailure,
    `Cannot listen at "${path}": another program already listens there`,
    { details: "it may be the Go plugin's DHCP daemon" },
  );
}

function listen(
  socket: PrivateSocket,
  where: string | Fd,
): ReturnType<PrivateSocket["listen"]> {
  try {
    return socket.listen(where);
  } catch (error) {
    throw new CniError(
      ErrorCode.IoFailure,
      `Cannot listen at "${where}": ${describeError(error)}`,
    );
  }
}

/** All leases of a daemon. */
class Leases {
  readonly #context: LeaseContext;
  readonly #kept = new Map<string, KeptLease>();
  /** The calls for the same lease run in sequence. */
  readonly #queue = new KeyedQueue();
  /** The running ADDs, each with the controller that cancels it. */
  readonly #adding = new Map<AbortController, string>();
  #isEnding = false;

  /** Goes on with the leases in the directory. */
  constructor(options: Omit<LeaseContext, "onGone" | "declines">) {
    const onGone = (kept: KeptLease): void => {
      const name = nameOf(kept.lease);
      if (this.#kept.get(name) === kept) this.#kept.delete(name);
    };
    this.#context = { ...options, onGone, declines: new DeclineLimit() };
    for (
      const [index, lease] of options.directory.list(options.log).entries()
    ) {
      const delayMs = index * SPREAD_MS;
      const kept = KeptLease.resume(lease, this.#context, delayMs);
      this.#kept.set(nameOf(lease), kept);
    }
  }

  /** How many there are. */
  get size(): number {
    return this.#kept.size;
  }

  /**
   * Carries out the request of the plugin.
   *
   * @param signal Aborted if the caller disconnects
   */
  async serve(
    request: DaemonRequest,
    signal: AbortSignal,
  ): Promise<Lease | undefined> {
    switch (request.command) {
      case "ADD":
        return await this.#add(request, signal);
      case "CHECK":
        return this.#kept.get(nameOf(request.key))?.lease;
      case "DEL":
        return await this.#delete(request.key, request.declined);
      case "GC":
        return await this.#collect(request);
      case "STATUS":
        return undefined;
    }
    throw new CniError(
      ErrorCode.DecodingFailure,
      "Cannot serve an unknown request",
    );
  }

  async #add(
    { request, declined = [] }: Extract<DaemonRequest, { command: "ADD" }>,
    caller: AbortSignal,
  ): Promise<Lease> {
    if (this.#isEnding) throw ended(AbortSignal.abort("it ends"));
    const name = nameOf(request);
    const end = new AbortController();
    using joined = new JoinedSignal(caller, end.signal);
    const { signal } = joined;
    this.#adding.set(end, name);
    try {
      using slot = await this.#queue.wait(name, signal);
      if (slot === undefined) throw ended(signal);
      const before = this.#kept.get(name);
      if (before && declined.includes(before.lease.address)) {
        await before.decline();
      } else if (before?.isFor(request)) {
        await before.update(request);
        if (!before.lease.isLost) return before.lease;
      }
      // For the server, the new link is the same client.
      await before?.stop();
      this.#kept.delete(name);
      const kept = await KeptLease.acquire(request, this.#context, signal);
      if (signal.aborted) {
        await kept.release();
        throw ended(signal);
      }
      this.#kept.set(name, kept);
      return kept.lease;
    } finally {
      this.#adding.delete(end);
    }
  }

  /** Gives back the leases of both address families. */
  async #delete(
    key: Attachment,
    declined: readonly string[] = [],
  ): Promise<undefined> {
    const { network, containerId, ifName } = key;
    const families = ([4, 6] as const)
      .map((family) => ({ network, containerId, ifName, family }));
    const names = families.map(nameOf);
    this.#endAdds("a DEL of the attachment arrived", names);
    await Promise.all(families.map(async (key) => {
      const name = nameOf(key);
      using _turn = await this.#queue.wait(name);
      const kept = this.#kept.get(name);
      this.#kept.delete(name);
      if (kept !== undefined) {
        return declined.includes(kept.lease.address)
          ? await kept.decline()
          : await kept.release();
      }
      // It is no longer kept if an ADD for another link has failed.
      const { directory, log } = this.#context;
      const lease = await directory.find(key, log);
      if (lease === undefined) await directory.remove(key);
      else await KeptLease.release(lease, this.#context);
    }));
  }

  async #collect(
    { network, valid }: Extract<DaemonRequest, { command: "GC" }>,
  ): Promise<undefined> {
    const isValid = listedTest(valid);
    const isOver = ({ lease }: KeptLease): boolean =>
      lease.network === network && !isValid(lease);
    const over = [...this.#kept.values()].filter(isOver);
    await Promise.all(over.map(({ lease }) => this.#delete(lease)));
  }

  #endAdds(why: string, only?: readonly string[]): void {
    for (const [end, name] of this.#adding) {
      if (only?.includes(name) ?? true) end.abort(new Error(why));
    }
  }

  /** Ends everything, and keeps the leases for the next daemon. */
  async stop(): Promise<void> {
    this.#isEnding = true;
    this.#endAdds("it ends");
    for (const name of new Set(this.#adding.values())) {
      using _turn = await this.#queue.wait(name);
    }
    await Promise.all([...this.#kept.values()].map((kept) => kept.stop()));
  }
}

/** Longest request, in bytes. */
const MAX_REQUEST = 16 * 1024 * 1024;

/** The Go plugin shows the status line. */
const TO_GO =
  "HTTP/1.0 501 this DHCP daemon does not serve the Go plugin dhcp; " +
  "use both from the same release\r\n\r\n";

interface ConversationOptions {
  readonly serve: Leases["serve"];
  readonly onEnded: () => void;
}

/** A connection: a line with a request, and a line with the answer. */
class Conversation implements RequestExchange {
  readonly #connection: ServerConnection;
  readonly #options: ConversationOptions;
  readonly #gone = new AbortController();
  readonly #decoder = new TextDecoder();
  #text = "";
  #isAsked = false;

  constructor(connection: ServerConnection, options: ConversationOptions) {
    this.#connection = connection;
    this.#options = options;
  }

  onData(bytes: Uint8Array<ArrayBuffer>): void {
    if (this.#isAsked) return;
    this.#text += this.#decoder.decode(bytes, { stream: true });
    if (this.#text.startsWith("CONNECT ")) return this.#end(TO_GO);
    if (this.#text.length > MAX_REQUEST) return this.#end("");
    if (!this.#text.endsWith("\n")) return;
    this.#isAsked = true;
    this.#answer().then((answer) => this.#end(`${JSON.stringify(answer)}\n`));
  }

  async #answer(): Promise<DaemonAnswer> {
    try {
      const request: DaemonRequest = JSON.parse(this.#text);
      return { lease: await this.#options.serve(request, this.#gone.signal) };
    } catch (error) {
      const { code, message: msg, details } = toCniError(error);
      return { error: { code, msg, details } };
    }
  }

  #end(text: string): void {
    this.#isAsked = true;
    this.#connection.send(new TextEncoder().encode(text));
    this.#connection.end();
    this.#options.onEnded();
  }

  onGone(): void {
    this.#gone.abort(new Error("the caller disconnected"));
    this.#options.onEnded();
  }

  get bytes(): number {
    return this.#text.length;
  }

  get isBegun(): boolean {
    return this.#isAsked;
  }

  refuse(): void {
    this.#end("");
  }
}
