/**
 * Sends API requests through the node's daemon, or directly if the daemon fails.
 *
 * @module
 */

import { deadline, waitUntil } from "../../../cni/deadline.ts";
import type { Header } from "../../../kube/access.ts";
import { decodeAnswer, type Exchange } from "../../../kube/answer.ts";
import type { Channel } from "../../../kube/channel.ts";
import { noAnswer } from "../../../kube/no_answer.ts";
import type { ApiRequest } from "../../../kube/request.ts";
import {
  HEALTH_PATH,
  MAY_BE_REMEMBERED,
  ORIGIN,
  POD_UID,
} from "./daemon_protocol.ts";
import { exchangeOverUnix, type UnixAnswer } from "./unix_http.ts";

/**
 * After how much silence the daemon is asked for the first time whether it
 * runs, and how long it has to say so, in milliseconds.
 */
const SILENCE_MS = 60, PROBE_MS = 60;

/** The daemon's response if the API server did not respond in time. */
const GATEWAY_TIMEOUT = 504;

/** How to reach the daemon, and the API server without it. */
export interface DaemonChannelOptions {
  readonly socketPath: string;
  /** UID of the call's pod; "" if unknown. */
  readonly podUid: string;
  /**
   * Opens a direct channel to the API server; called at most once.
   *
   * @throws {CniError} If there is no API server
   */
  readonly openDirect: () => Promise<Channel>;
}

/**
 * Sends requests to the daemon, and to the API server if the daemon fails or
 * times out. The API server may then get a request twice; all writes of the
 * plugin may safely be repeated.
 */
export class DaemonChannel implements Channel {
  readonly #options: DaemonChannelOptions;
  #direct: Promise<Channel> | undefined;
  #isDown = false;

  /** Keeps the options, without any I/O. */
  constructor(options: DaemonChannelOptions) {
    this.#options = options;
  }

  /** The daemon asks for no credentials. */
  async authenticate(
    request: ApiRequest,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    if (!this.#isDown) return;
    const direct = await this.#openDirect();
    await direct.authenticate(request, signal);
  }

  /**
   * Sends a request to the daemon, or else to the API server.
   *
   * @throws {KubeError}
   * @throws {CniError} If the API server cannot be reached directly
   */
  async exchange<T>(request: ApiRequest, signal: AbortSignal): Promise<T> {
    const answer = await this.#ask(request, signal);
    if (answer !== undefined) {
      const named = this.#describe(request);
      return decodeAnswer<T>({ request: named, answer }, answer.text);
    }
    const direct = await this.#openDirect();
    return await direct.exchange<T>(request, signal);
  }

  /** Sends a request past the daemon: its answer is perhaps never over. */
  async send(request: ApiRequest, signal: AbortSignal): Promise<Exchange> {
    const direct = await this.#openDirect();
    return await direct.send(request, signal);
  }

  #openDirect(): Promise<Channel> {
    return this.#direct ??= this.#options.openDirect();
  }

  /** @returns Undefined if the daemon fails */
  async #ask(
    request: ApiRequest,
    signal: AbortSignal,
  ): Promise<UnixAnswer | undefined> {
    if (this.#isDown) return undefined;
    const own = new AbortController();
    try {
      const answer = await this.#waitFor(
        this.#send(request, AbortSignal.any([signal, own.signal])),
        signal,
      );
      // Without the header, the daemon runs, but cannot serve this request.
      if (answer.headers.get(ORIGIN) !== null) return answer;
      // Its connection may be at fault: the next try goes past it.
      if (answer.status === GATEWAY_TIMEOUT) this.#isDown = true;
    } catch (error) {
      this.#isDown = true;
      if (signal.aborted) {
        throw noAnswer(this.#describe(request), error, signal);
      }
    } finally {
      own.abort();
    }
    return undefined;
  }

  /**
   * Waits as long as the daemon runs: if the API server is slow, a second request
   * would be slow too.
   *
   * @throws {Error} If there is no response
   */
  async #waitFor(
    answering: Promise<UnixAnswer>,
    signal: AbortSignal,
  ): Promise<UnixAnswer> {
    for (let silenceMs = SILENCE_MS;; silenceMs *= 2) {
      const answer = await waitUntil(answering, deadline(silenceMs, signal));
      if (answer !== undefined) return answer;
      signal.throwIfAborted();
      await this.#probe(signal);
    }
  }

  /** @throws {Error} If the daemon does not respond */
  async #probe(signal: AbortSignal): Promise<void> {
    const request = { method: "GET", path: HEALTH_PATH, headers: [] };
    const soon = deadline(PROBE_MS, signal);
    await exchangeOverUnix(this.#options.socketPath, request, soon);
  }

  #send(
    { method, path, body, contentType, mayBeRemembered }: ApiRequest,
    signal: AbortSignal,
  ): Promise<UnixAnswer> {
    const { socketPath, podUid } = this.#options;
    const headers: Header[] = [];
    if (contentType !== undefined) headers.push(["content-type", contentType]);
    if (mayBeRemembered) {
      headers.push(MAY_BE_REMEMBERED);
      if (/^[\w-]+$/.test(podUid)) headers.push([POD_UID, podUid]);
    }
    const request = { method, path, headers, body };
    return exchangeOverUnix(socketPath, request, signal);
  }

  #describe(
    { method, path }: ApiRequest,
  ): { readonly method: string; readonly url: string } {
    return { method, url: `unix:${this.#options.socketPath}:${path}` };
  }

  /** Closes direct connections; requests to the daemon close their own. */
  [Symbol.dispose](): void {
    this.#direct?.then((direct) => direct[Symbol.dispose](), () => {});
  }
}
