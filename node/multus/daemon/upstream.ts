/**
 * The daemon's way to the API server, found anew when it has gone bad.
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

/** Time between two ways that are opened, in milliseconds. */
const MIN_AGE_MS = 5000;
/** After how long nobody uses a way any more that is left, in milliseconds. */
const FAREWELL_MS = 10_000;

/** How a way is opened, and who is told. */
export interface UpstreamOptions {
  /** Reads the kubeconfig, or the service account. */
  readonly open: () => Promise<Channel>;
  readonly log: Pick<Log, "info" | "warn">;
  /** Milliseconds from any moment on. */
  readonly now?: () => number;
}

/**
 * A channel that outlives its credentials and its connections. A kubeconfig is
 * read again when what was in it is refused: somebody has replaced it. When
 * nothing comes back, the connections are given up, which may be dead without
 * anybody having said so.
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
   * Opens a way; nothing is connected yet.
   *
   * @throws What `open` throws
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

  /** Sends a request, and reads what is answered. */
  async exchange<T>(request: ApiRequest, signal: AbortSignal): Promise<T> {
    return await readAnswer<T>(await this.send(request, signal));
  }

  /** Sends a request; if we are not let in, once more by a way that is new. */
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

  /** Opens another way, unless that has just been done. */
  async #replace(used: Channel, reason: string): Promise<void> {
    if (this.#channel !== used) return;
    if (this.#now() - this.#openedAtMs < MIN_AGE_MS) return;
    this.#opening ??= this.#reopen(reason);
    await this.#opening;
  }

  async #reopen(reason: string): Promise<void> {
    const { open, log } = this.#options;
    // Also if it fails: not again with the next request.
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

/** Nobody answers, or somebody whom we do not know. */
function isDead(error: unknown): boolean {
  return error instanceof KubeError && (error.isTimeout || error.isUntrusted);
}
