/**
 * Checks that depend on more than the networks' definitions. Not a part of the
 * selection: a pod that was attached before the node changed must be detached.
 *
 * @module
 */

import type { Delegate } from "../model/delegate.ts";
import type { PermittingCall } from "./in_use.ts";

/**
 * Checks that a pod may have the routes, addresses and MACs that it requests.
 * Reads nothing for a pod that requests none.
 *
 * @returns The locks on what it requests, to be held until it is attached
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
