/**
 * How requests reach the server: the interface of all transports.
 *
 * @module
 */

import type { Access, ClientCertificate, Header } from "./access.ts";

/** A request in the words of HTTP. */
export interface HttpRequest {
  readonly method: string;
  readonly url: string;
  /** A name may come more than once. */
  readonly headers: readonly Header[];
  readonly body?: string;
}

/** An answer; a `Response` is one. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  readonly body: ReadableStream<Uint8Array> | null;
}

/** Connections to one server. */
export interface Transport extends Disposable {
  /**
   * Sends a request.
   *
   * @param signal Gives it up, the reading of its answer included
   * @throws {Error} If there is no answer
   */
  send(request: HttpRequest, signal: AbortSignal): Promise<HttpAnswer>;
}

/**
 * Opens a transport; nothing is connected yet.
 *
 * @throws {Error} If certificates or keys are not what they should be
 */
export type OpenTransport = (
  access: Access,
  certificate: ClientCertificate | undefined,
) => Transport;
