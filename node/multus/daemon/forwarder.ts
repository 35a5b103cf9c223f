/**
 * Forwards requests that the cache cannot answer to the API server.
 *
 * @module
 */

import { deadline } from "../../../cni/deadline.ts";
import { readText } from "../../../kube/answer.ts";
import type { Channel } from "../../../kube/channel.ts";
import { KubeError } from "../../../kube/kube_error.ts";
import type { ApiRequest } from "../../../kube/request.ts";

/**
 * Maximum number of concurrent requests: each has a connection, whose first
 * request is slow.
 */
const MAX_REQUESTS = 16;

/** An answer of the API server. */
export interface ForwardedAnswer {
  readonly status: number;
  readonly contentType: string;
  /** The header `Retry-After`. */
  readonly retryAfter: string | null;
  readonly text: string;
}

/** Forwards requests to the API server. */
export class Forwarder {
  readonly #channel: Channel;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  /** Forwards over this channel. */
  constructor(channel: Channel) {
    this.#channel = channel;
  }

  /**
   * Sends a request, and reads its answer, errors included.
   *
   * @param timeoutMs In milliseconds; includes the wait for a free slot
   * @throws {KubeError} If there is no answer
   */
  async forward(
    request: ApiRequest,
    timeoutMs: number,
  ): Promise<ForwardedAnswer> {
    const signal = deadline(timeoutMs);
    if (this.#running >= MAX_REQUESTS) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.#running++;
    try {
      return await this.#try(request, signal);
    } finally {
      this.#running--;
      this.#waiting.shift()?.();
    }
  }

  /**
   * Repeats a request once, because a kept connection may close just as it is
   * reused.
   */
  async #try(
    request: ApiRequest,
    signal: AbortSignal,
  ): Promise<ForwardedAnswer> {
    try {
      return await this.#send(request, signal);
    } catch (error) {
      const isRepeatable = request.method !== "POST" &&
        error instanceof KubeError && error.status === 0 && !error.isUnsent;
      if (!isRepeatable || signal.aborted) throw error;
      return await this.#send(request, signal);
    }
  }

  async #send(
    request: ApiRequest,
    signal: AbortSignal,
  ): Promise<ForwardedAnswer> {
    await this.#channel.authenticate(request, signal);
    const exchange = await this.#channel.send(request, signal);
    const { status, headers } = exchange.answer;
    return {
      status,
      contentType: headers.get("content-type") ?? "",
      retryAfter: headers.get("retry-after"),
      text: await readText(exchange),
    };
  }
}
