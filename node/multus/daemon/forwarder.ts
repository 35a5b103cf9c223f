/**
 * Asking the API server what nobody here knows.
 *
 * @module
 */

import { deadline } from "../../../cni/deadline.ts";
import { readText } from "../../../kube/answer.ts";
import type { Channel } from "../../../kube/channel.ts";
import { KubeError } from "../../../kube/kube_error.ts";
import type { ApiRequest } from "../../../kube/request.ts";

/** Requests at a time: each has a connection, and the first one on it is slow. */
const MAX_REQUESTS = 16;

/** What the API server answered. */
export interface ForwardedAnswer {
  readonly status: number;
  readonly contentType: string;
  /** Header `Retry-After`. */
  readonly retryAfter: string | null;
  readonly text: string;
}

/** Forwards requests. */
export class Forwarder {
  readonly #channel: Channel;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  /** Forwards to an API server. */
  constructor(channel: Channel) {
    this.#channel = channel;
  }

  /**
   * Sends a request, and reads the answer, whatever it is.
   *
   * @param timeoutMs In milliseconds, the time in which it waits for its turn
   *   included
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

  /** A connection that was kept may be closed just when it is used again. */
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
