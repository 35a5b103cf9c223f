/**
 * The daemon's channel to the API server, which is replaced when it fails.
 *
 * @module
 */

import { describeError } from "../../../cni/error.ts";
import { pause } from "../../../cni/deadline.ts";
import type { Log } from "../../../cni/log.ts";
import { type Exchange, readAnswer } from "../../../kube/answer.ts";
import type { Channel } from "../../../kube/channel.ts";
import { KubeError } from "../../../kube/kube_error.ts";
import type { ApiRequest } from "../../../kube/request.ts";

/** Minimum time between two openings of a channel, in milliseconds. */
const MIN_AGE_MS = 5000;
/** Time after which a replaced channel is no longer in use, in milliseconds. */
const FAREWELL_MS = 10_000;

/** Options of the channel. */
export interface UpstreamOptions {
  /** Opens a channel with the kubeconfig or the service account. */
  readonly open: () => Promise<Channel>;
  readonly log: Pick<Log, "info" | "warn">;
  /** Milliseconds from an arbitrary start. */
  readonly now?: () => number;
}

/**
 * A channel that outlives its credentials and its connections. If the server
 * refuses the credentials, the kubeconfig is read again, because it may have
 * been replaced. If there is no answer, the connections are replaced, because
 * they may be dead without notice.
 */
export class Upstream implements Channel {
  readonly #options: UpstreamOptions;
  readonly #now: () => number;
  #channel: Channel;
  #openedAtMs: number;
  #opening: Promise<void> | undefined;

  private constructor(options: UpstreamOptions, channel: Channel) {
    this.#options = options;
    this.#channel = channel;
    this.#now = options.now ?? ((): number => performance.now());
    this.#openedAtMs = this.#now();
  }

  /**
   * Opens a channel without connecting.
   *
   * @throws Any error of `open`
   */
  static async open(options: UpstreamOptions): Promise<Upstream> {
    return new Upstream(options, await options.open());
  }

  /** Gets credentials. */
  async authenticate(
    request: ApiRequest,
    signal: AbortSignal | undefined,
  ): Promise<unknown> {
    return await this.#channel.authenticate(request, signal);
  }

  /** Sends a request, and reads its answer. */
  async exchange<T>(request: ApiRequest, signal: AbortSignal): Promise<T> {
    return await readAnswer<T>(await this.send(request, signal));
  }

  /**
   * Sends a request, and repeats it on a new channel if the credentials are
   * refused.
   */
  async send(request: ApiRequest, signal: AbortSignal): Promise<Exchange> {
    const used = this.#channel;
    try {
      const exchange = await used.send(request, signal);
      if (exchange.answer.status !== 401) return exchange;
      await this.#replace(used, "the credentials are refused");
      if (this.#channel === used) return exchange;
      await exchange.answer.body?.cancel();
    } catch (error) {
      if (isDead(error)) await this.#replace(used, describeError(error));
      throw error;
    }
    return await this.#channel.send(request, signal);
  }

  /** Opens a new channel, unless one was opened just before. */
  async #replace(used: Channel, reason: string): Promise<void> {
    if (this.#channel !== used) return;
    if (this.#now() - this.#openedAtMs < MIN_AGE_MS) return;
    this.#opening ??= this.#reopen(reason);
    await this.#opening;
  }

  async #reopen(reason: string): Promise<void> {
    const { open, log } = this.#options;
    // Set even if opening fails, so that the next request does not try again.
    this.#openedAtMs = this.#now();
    try {
      const left = this.#channel;
      this.#channel = await open();
      log.info("Connecting anew to the API server", { reason });
      pause(FAREWELL_MS).then(() => left[Symbol.dispose]());
    } catch (error) {
      const problem = describeError(error);
      log.warn("Cannot find the API server anew", { reason, problem });
    } finally {
      this.#opening = undefined;
    }
  }

  /** Closes the connections. */
  [Symbol.dispose](): void {
    this.#channel[Symbol.dispose]();
  }
}

/** Reports whether the server does not answer in time, or is untrusted. */
function isDead(error: unknown): boolean {
  return error instanceof KubeError && (error.isTimeout || error.isUntrusted);
}
