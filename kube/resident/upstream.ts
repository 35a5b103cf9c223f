/**
 * A long-lived channel to the API server, which is replaced when it fails.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import { pause } from "../../base/deadline.ts";
import { withoutSlot } from "../../base/long_wait.ts";
import type { Log } from "../../base/log/log.ts";
import type { Exchange } from "../answer.ts";
import type { Channel } from "../connection.ts";
import { KubeError } from "../kube_error.ts";
import type { KubeRequest } from "../request.ts";

/** Minimum time between two openings of a channel, in milliseconds. */
const MIN_AGE_MS = 5000;
/**
 * Minimum time between two openings while connections fail immediately, in
 * milliseconds: the server is more likely to return than to have moved.
 */
const NO_ANSWER_AGE_MS = 60_000;
/** Time after which a replaced channel is no longer in use, in milliseconds. */
const GRACE_MS = 10_000;

/** Options of the channel. */
export interface UpstreamOptions {
  /** Opens a channel with the kubeconfig or the service account. */
  readonly open: () => Promise<Channel>;
  readonly log: Pick<Log, "info" | "warn">;
  /** Milliseconds from an arbitrary start. */
  readonly now?: () => number;
}

/**
 * A channel that outlives its credentials and its connections. It is opened for
 * the first request. If the server refuses the credentials, the kubeconfig is
 * read again, because it might have been replaced. If there is no answer, the
 * connections are replaced, because they might be dead without notice, or the
 * kubeconfig might name a different server.
 */
export class Upstream implements Channel {
  readonly #options: UpstreamOptions;
  readonly #now: () => number;
  #channel: Channel | undefined;
  #openedAtMs = -Infinity;
  #opening: Promise<void> | undefined;
  #problem: unknown;
  /** Why the channel was last replaced, if nothing was answered since. */
  #reason: string | undefined;

  /** Keeps the options, without any I/O. */
  constructor(options: UpstreamOptions) {
    this.#options = options;
    this.#now = options.now ?? ((): number => performance.now());
  }

  /**
   * Gets credentials.
   *
   * @throws Also what `open` throws
   */
  async authenticate(
    request: KubeRequest,
    signal: AbortSignal | undefined,
  ): Promise<unknown> {
    return await (await this.#get()).authenticate(request, signal);
  }

  /**
   * Sends a request, and repeats it on a new channel if the credentials are
   * refused.
   *
   * @throws Also what `open` throws
   */
  async send(request: KubeRequest, signal: AbortSignal): Promise<Exchange> {
    const used = await this.#get();
    try {
      const exchange = await used.send(request, signal);
      this.#reason = undefined;
      if (exchange.answer.status !== 401) return exchange;
      await this.#replace(used, "the credentials are refused");
      if (this.#channel === used) return exchange;
      await exchange.answer.body?.cancel();
    } catch (error) {
      const ageMs = replacementAgeMs(error, signal);
      if (ageMs !== undefined) {
        await this.#replace(used, describeReason(error), ageMs);
      }
      throw error;
    }
    return await (await this.#get()).send(request, signal);
  }

  async #get(): Promise<Channel> {
    await this.#replace(undefined, "it is needed");
    if (this.#channel === undefined) throw this.#problem;
    return this.#channel;
  }

  /** Opens a new channel, unless a channel was opened just before. */
  async #replace(
    used: Channel | undefined,
    reason: string,
    minAgeMs: number = MIN_AGE_MS,
  ): Promise<void> {
    if (this.#channel !== used) return;
    const isOpening = this.#opening !== undefined;
    if (!isOpening && this.#now() - this.#openedAtMs < minAgeMs) return;
    this.#opening ??= withoutSlot(() => this.#reopen(reason));
    await this.#opening;
  }

  async #reopen(reason: string): Promise<void> {
    const { open, log } = this.#options;
    // Set even if opening fails, so that the next request does not try again.
    this.#openedAtMs = this.#now();
    try {
      const left = this.#channel;
      this.#channel = await open();
      this.#problem = undefined;
      if (left === undefined) return;
      if (reason !== this.#reason) {
        log.info("Reconnecting to the API server", { reason });
      }
      this.#reason = reason;
      pause(GRACE_MS).then(() => left[Symbol.dispose]());
    } catch (error) {
      this.#logOnce(error, reason);
    } finally {
      this.#opening = undefined;
    }
  }

  /** Logs a lasting problem once. */
  #logOnce(error: unknown, reason: string): void {
    const problem = describeError(error);
    const isKnown = this.#problem !== undefined &&
      describeError(this.#problem) === problem;
    this.#problem = error;
    if (isKnown) return;
    const { log } = this.#options;
    log.warn("Cannot connect to the API server", { reason, problem });
  }

  /** Closes the connections. */
  [Symbol.dispose](): void {
    this.#channel?.[Symbol.dispose]();
  }
}

/**
 * Returns the age at which a failed request has the channel replaced, in
 * milliseconds; undefined if the server answered, or the caller gave up.
 */
function replacementAgeMs(
  error: unknown,
  signal: AbortSignal,
): number | undefined {
  if (!(error instanceof KubeError) || error.status !== 0) return undefined;
  if (error.isTimeout || error.isUntrusted) return MIN_AGE_MS;
  return signal.aborted ? undefined : NO_ANSWER_AGE_MS;
}

/** Describes a failed request without its method and path. */
function describeReason(error: unknown): string {
  return describeError(error).replace(/^\w+ "[^"]*": /, "");
}
