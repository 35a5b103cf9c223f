/**
 * The plugin's way to the API server by the daemon of its node, and past it if
 * that is of no use.
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

/** The daemon's answer when the API server has not answered it in time. */
const GATEWAY_TIMEOUT = 504;

/** How the daemon is reached, and the API server without it. */
export interface DaemonChannelOptions {
  readonly socketPath: string;
  /** The pod that the call is about; "" if nobody said. */
  readonly podUid: string;
  /**
   * Opens the way past the daemon; called once, if it is needed.
   *
   * @throws {CniError} If there is none
   */
  readonly openDirect: () => Promise<Channel>;
}

/**
 * Sends requests to the daemon, and to the API server if the daemon fails or
 * times out. So the API server may get a request twice: everything that the
 * plugin writes may be written twice.
 */
export class DaemonChannel implements Channel {
  readonly #options: DaemonChannelOptions;
  #direct: Promise<Channel> | undefined;
  #isDown = false;

  /** Remembers where the daemon would be; nothing is connected yet. */
  constructor(options: DaemonChannelOptions) {
    this.#options = options;
  }

  /** The daemon's connections are open already. */
  get isShared(): boolean {
    return !this.#isDown;
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
   * Has the daemon answer, or else the API server.
   *
   * @throws {KubeError}
   * @throws {CniError} If there is no way past the daemon
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

  /** @returns Undefined if the daemon is of no use */
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
      // Without it the daemon runs, and cannot help this time.
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
   * Waits as long as the daemon runs: it may be the API server that takes its
   * time, and would take it twice.
   *
   * @throws {Error} If there is no answer
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

  /** @throws {Error} If the daemon does not say that it runs */
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

  /** Closes the connections past the daemon; there are none to it. */
  [Symbol.dispose](): void {
    this.#direct?.then((direct) => direct[Symbol.dispose](), () => {});
  }
}
