/**
 * What carries requests to an API server.
 *
 * @module
 */

import type { Exchange } from "./answer.ts";
import type { ApiRequest } from "./request.ts";

/** A way to an API server. Dispose of it to close its connections. */
export interface Channel extends Disposable {
  /** Whether several requests at a time cost no more TLS connections. */
  readonly isShared?: boolean;
  /**
   * Does what takes its time before a request, and is no part of it.
   *
   * @throws {KubeError} If there are no credentials
   */
  authenticate(
    request: ApiRequest,
    signal: AbortSignal | undefined,
  ): Promise<unknown>;
  /**
   * Sends a request, and reads what is answered.
   *
   * @returns The JSON in it
   * @throws {KubeError}
   */
  exchange<T>(request: ApiRequest, signal: AbortSignal): Promise<T>;
  /**
   * Sends a request, whatever the answer.
   *
   * @throws {KubeError} If nothing is answered
   */
  send(request: ApiRequest, signal: AbortSignal): Promise<Exchange>;
}
