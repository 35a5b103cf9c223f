/**
 * The node's current default network.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../base/error.ts";
import { formatAbort, waitUntil } from "../base/deadline.ts";
import type { Log, LogFields, LogLevel } from "../base/log/log.ts";
import {
  chooseNetwork,
  type NetworkChoice,
  type NetworkSource,
} from "./choose_network.ts";
import { FileStamps } from "../base/files/file_stamps.ts";

/**
 * When an unusable network is tried again although no file has changed: a plugin
 * may have been slow once, or could not be started.
 *
 * Source: kubelet `defaultSyncConfigPeriod`.
 */
const RETRY_AFTER_MS = 5_000;

/** A choice, and the files it was based on. */
interface Known {
  readonly choice: NetworkChoice;
  readonly stamps: FileStamps;
  readonly sinceMs: number;
}

/**
 * The default network. It is chosen on demand, and chosen again after a file that
 * the choice depends on has changed. It needs neither a timer nor a watch.
 */
export class DefaultNetwork {
  readonly #source: NetworkSource;
  readonly #log: Log;
  readonly #retryAfterMs: number;
  #known: Known | undefined;
  #search: Promise<NetworkChoice> | undefined;
  /** The messages logged for the last choice. */
  #reports: ReadonlySet<string> = new Set();

  /**
   * @param log Receives unusable files and each new default network
   * @param retryAfterMs When to retry after an error that may go away by itself
   */
  constructor(
    source: NetworkSource,
    log: Log,
    retryAfterMs: number = RETRY_AFTER_MS,
  ) {
    this.#source = source;
    this.#log = log;
    this.#retryAfterMs = retryAfterMs;
  }

  /**
   * Returns the network according to the current files.
   *
   * @throws {CniError} 11 at the signal
   */
  async get(signal: AbortSignal): Promise<NetworkChoice> {
    const choice = await waitUntil(this.#get(), signal);
    if (choice !== undefined) return choice;
    throw new CniError(
      ErrorCode.TryAgainLater,
      `Cannot choose a network of "${this.#source.confDir}": ` +
        formatAbort(signal),
    );
  }

  async #get(): Promise<NetworkChoice> {
    // It may have started before this caller's latest change.
    await this.#search;
    const known = this.#known;
    if (known !== undefined && this.#isCurrent(known)) return known.choice;
    return await (this.#search ??= this.#choose());
  }

  async #choose(): Promise<NetworkChoice> {
    try {
      const stamps = new FileStamps();
      const choice = await chooseNetwork(this.#source, stamps);
      this.#known = { choice, stamps, sinceMs: performance.now() };
      this.#report(choice);
      return choice;
    } finally {
      this.#search = undefined;
    }
  }

  /** Logs messages that the previous choice did not have. */
  #report(choice: NetworkChoice): void {
    const reports = new Map(
      listReports(choice).map((report) => [JSON.stringify(report), report]),
    );
    for (const [key, { level, message, fields }] of reports) {
      if (!this.#reports.has(key)) this.#log[level](message, fields);
    }
    this.#reports = new Set(reports.keys());
  }

  #isCurrent({ choice, stamps, sinceMs }: Known): boolean {
    const isStale = choice.isTransient &&
      performance.now() - sinceMs >= this.#retryAfterMs;
    return !isStale && stamps.isCurrent();
  }
}

/** Describes a choice. */
interface Report {
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: LogFields;
}

function listReports(
  { network, skipped, loopbackError }: NetworkChoice,
): Report[] {
  const reports = skipped.map(({ path, error }): Report => ({
    level: "warn",
    message: "Skipped a network configuration",
    fields: { path, error: describeError(error) },
  }));
  if (loopbackError !== undefined) {
    const fields = { error: describeError(loopbackError) };
    reports.push({ level: "warn", message: "Pods get no loopback", fields });
  }
  if (network !== undefined) {
    const fields = { network: network.list.name, path: network.path };
    reports.push({
      level: "info",
      message: "Chose the default network",
      fields,
    });
  }
  return reports;
}
