/**
 * The interface that carries requests to an API server.
 *
 * @module
 */

import type { Exchange } from "./answer.ts";
import type { ApiRequest } from "./request.ts";

/** A channel to an API server. Dispose of it to close its connections. */
export interface Channel extends Disposable {
  /**
   * Gets credentials, which takes time but does not count as part of the
   * request.
   *
   * @throws {KubeError} If there are none
   */
  authenticate(
    request: ApiRequest,
    signal: AbortSignal | undefined,
  ): Promise<unknown>;
  /**
   * Sends a request, and reads its answer.
   *
   * @returns The JSON in the answer
   * @throws {KubeError}
   */
  exchange<T>(request: ApiRequest, signal: AbortSignal): Promise<T>;
  /**
   * Sends a request; returns any answer, errors included.
   *
   * @throws {KubeError} If there was no answer
   */
  send(request: ApiRequest, signal: AbortSignal): Promise<Exchange>;
}
