/**
 * A channel with responses from a test.
 *
 * @module
 */

import type { Exchange } from "../../kube/answer.ts";
import type { Channel } from "../../kube/connection.ts";
import type { KubeRequest } from "../../kube/request.ts";

/** Returns the response to a request, or throws. */
export type Reply = (
  request: KubeRequest,
  signal: AbortSignal,
) => Response | Promise<Response>;

/** The channel. */
export class FakeChannel implements Channel {
  /** The requests, such as `GET /x`. */
  readonly requests: string[] = [];
  /** How often credentials were asked for. */
  authentications = 0;
  isClosed = false;
  readonly #reply: Reply;

  /** Responds with a function. */
  constructor(reply: Reply) {
    this.#reply = reply;
  }

  /** Counts. */
  authenticate(): Promise<void> {
    this.authentications++;
    return Promise.resolve();
  }

  /** Responds. */
  async send(request: KubeRequest, signal: AbortSignal): Promise<Exchange> {
    const { method = "GET", path } = request;
    this.requests.push(`${method} ${path}`);
    const answer = await this.#reply(request, signal);
    const named = { method, url: `http://h${path}` };
    return { request: named, answer, signal };
  }

  /** Remembers that it is not needed any more. */
  [Symbol.dispose](): void {
    this.isClosed = true;
  }
}

/** Builds a JSON response. */
export function json(value: unknown, init: ResponseInit = {}): Response {
  const headers = { "content-type": "application/json" };
  return new Response(JSON.stringify(value), { headers, ...init });
}
