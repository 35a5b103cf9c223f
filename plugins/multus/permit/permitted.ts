/**
 * Checks that depend on more than the networks' definitions. They are not part of the
 * selection, because a pod must be detachable after the node has changed.
 *
 * @module
 */

import type { Delegate } from "../model/delegate.ts";
import type { PermittingCall } from "./in_use.ts";

/**
 * Checks that a pod is permitted to have the routes, addresses and MAC addresses that
 * it requests. Reads nothing for a pod without requests.
 *
 * @returns Locks on the requested addresses, to be held until the pod is attached
 * @throws {NetworkError} 7 If it is not allowed
 */
export async function checkPermitted(
  session: PermittingCall,
  delegates: readonly Delegate[],
): Promise<Disposable | undefined> {
  const { call: { config } } = session;
  if (delegates.some(({ request }) => request.routes)) {
    const { checkPermittedRoutes } = await import(
      "../select/requested_routes.ts"
    );
    checkPermittedRoutes(delegates, config);
  }
  const isAsked = delegates.some(({ request: { ips, mac, cniArgs } }) =>
    ips !== undefined || mac !== undefined || cniArgs !== undefined
  );
  if (!isAsked || config.podRequests === "any") return undefined;
  const { reserveRequested } = await import("./in_use.ts");
  return await reserveRequested(session, delegates);
}
