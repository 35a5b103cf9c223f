/**
 * Limits of a daemon's connections and of its memory for their requests. If a limit
 * is exceeded, the process that holds the most is refused, not the newest: callers
 * that send a request immediately always succeed.
 *
 * @module
 */

/** The most bytes of requests in memory, complete or not. */
const MAX_BYTES = 64 * 1024 * 1024;

/** The most connections. */
export const MAX_CONNECTIONS = 5000;

/** The most connections of a process whose requests are not complete. */
const MAX_OF_PROCESS = 64;

/** The reason for a refusal. */
export type RefusalReason =
  | "too many connections"
  | "too many bytes of requests"
  | "request not arrived"
  | "the daemon ends";

/** A connection that counts towards the limits. */
export interface Admitted {
  /** Bytes of its request in memory. */
  readonly bytes: number;
  /** Whether it can no longer be refused: its work has begun. */
  readonly isBegun: boolean;
  /** Refuses the connection, which ends it immediately. */
  refuse(reason: RefusalReason): void;
}

/** See {@linkcode MAX_BYTES} and the other limits. */
export interface AdmissionOptions {
  readonly maxBytes?: number;
  readonly maxConnections?: number;
  readonly maxOfProcess?: number;
}

interface Entry {
  readonly pid: number;
  readonly connection: Admitted;
  /** The bytes at the last count. */
  bytes: number;
}

/** The connections of a daemon, on all its sockets. */
export class Admission {
  readonly #options: AdmissionOptions;
  /** The connections, oldest first. */
  readonly #entries = new Map<Admitted, Entry>();
  #bytes = 0;

  /** Starts with no connections. */
  constructor(options: AdmissionOptions = {}) {
    this.#options = options;
  }

  /** Counts a new connection of a process, and makes room for it. */
  enter(connection: Admitted, pid: number): void {
    const {
      maxConnections = MAX_CONNECTIONS,
      maxOfProcess = MAX_OF_PROCESS,
    } = this.#options;
    this.#entries.set(connection, { pid, connection, bytes: 0 });
    const waiting = this.#listWaiting(pid);
    if (
      waiting.length > maxOfProcess || this.#entries.size > maxConnections
    ) this.makeRoom();
  }

  /**
   * Refuses the oldest connection of the process that has the most connections that
   * can be refused.
   *
   * @returns Whether a connection was refused
   */
  makeRoom(): boolean {
    const counts = new Map<number, number>();
    for (const { pid, connection } of this.#entries.values()) {
      if (!connection.isBegun) counts.set(pid, (counts.get(pid) ?? 0) + 1);
    }
    const most = Math.max(0, ...counts.values());
    const [pid] = [...counts].find(([, count]) => count === most) ?? [];
    const [oldest] = pid === undefined ? [] : this.#listWaiting(pid);
    oldest?.refuse("too many connections");
    return oldest !== undefined;
  }

  #listWaiting(pid: number): Admitted[] {
    return [...this.#entries.values()]
      .filter((entry) => entry.pid === pid && !entry.connection.isBegun)
      .map(({ connection }) => connection);
  }

  /** Counts the bytes that a connection has received. */
  count(connection: Admitted): void {
    const entry = this.#entries.get(connection);
    if (entry === undefined) return;
    this.#bytes += connection.bytes - entry.bytes;
    entry.bytes = connection.bytes;
    const { maxBytes = MAX_BYTES } = this.#options;
    while (this.#bytes > maxBytes && this.#refuseLargest());
  }

  #refuseLargest(): boolean {
    const waiting = [...this.#entries.keys()]
      .filter(({ isBegun, bytes }) => !isBegun && bytes > 0);
    const most = Math.max(...waiting.map(({ bytes }) => bytes));
    const largest = waiting.find(({ bytes }) => bytes === most);
    largest?.refuse("too many bytes of requests");
    return largest !== undefined;
  }

  /** Stops counting a connection. A second call does nothing. */
  leave(connection: Admitted): void {
    this.#bytes -= this.#entries.get(connection)?.bytes ?? 0;
    this.#entries.delete(connection);
  }
}
