/**
 * A channel that answers what a test tells it to.
 *
 * @module
 */

import { type Exchange, readAnswer } from "../../kube/answer.ts";
import type { Channel } from "../../kube/channel.ts";
import type { ApiRequest } from "../../kube/request.ts";

/** Answers a request, or throws. */
export type Reply = (
  request: ApiRequest,
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

  /** Answers by a function. */
  constructor(reply: Reply) {
    this.#reply = reply;
  }

  /** Counts. */
  authenticate(): Promise<void> {
    this.authentications++;
    return Promise.resolve();
  }

  /** Answers with the JSON of an answer. */
  async exchange<T>(request: ApiRequest, signal: AbortSignal): Promise<T> {
    return await readAnswer<T>(await this.send(request, signal));
  }

  /** Answers. */
  async send(request: ApiRequest, signal: AbortSignal): Promise<Exchange> {
    this.requests.push(`${request.method} ${request.path}`);
    const answer = await this.#reply(request, signal);
    const named = { method: request.method, url: `http://h${request.path}` };
    return { request: named, answer, signal };
  }

  /** Remembers that it is not needed any more. */
  [Symbol.dispose](): void {
    this.isClosed = true;
  }
}

/** Makes an answer of JSON. */
export function json(value: unknown, init: ResponseInit = {}): Response {
  const headers = { "content-type": "application/json" };
  return new Response(JSON.stringify(value), { headers, ...init });
}
