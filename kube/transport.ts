/**
 * The interface of transports, which carry requests to one server.
 *
 * @module
 */

import type { Environment } from "../base/process/environment.ts";
import type { Access, ClientCertificate, Header } from "./access.ts";

export interface HttpRequest {
  readonly method: string;
  readonly url: string;
  /** A name may occur more than once. */
  readonly headers: readonly Header[];
  readonly body?: string;
}

/** An HTTP answer, such as a `Response`. */
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
   * @param signal Cancels the request and the reading of its answer
   * @throws {Error} Without an answer
   */
  send(request: HttpRequest, signal: AbortSignal): Promise<HttpAnswer>;
}

/**
 * Opens a transport without connecting.
 *
 * @throws {Error} If certificates or keys are invalid
 */
export type OpenTransport = (
  access: Access,
  certificate: ClientCertificate | undefined,
) => Transport;

/** The process that a transport is for. */
export interface TransportOptions {
  /** This process's environment. */
  readonly env: Environment;
  /** Whether the process serves many calls, instead of one. */
  readonly isResident?: boolean | undefined;
}
