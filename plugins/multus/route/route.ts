/**
 * Sets the routes that a pod requests over a network, after the network's ADD.
 *
 * @module
 */

import type { CmdArgs } from "../../../cni/call/args.ts";
import type { AttachmentCache } from "../../../libcni/cache.ts";
import {
  type Attached,
  type NetworkAttachment,
  networkOf,
} from "../model/attachment.ts";
import type { Delegate } from "../model/delegate.ts";

/** The parts of a call that routing needs. */
export interface RoutingCall {
  readonly call: { readonly args: CmdArgs };
  /** Contains the results of completed attachments. */
  readonly cache: Pick<AttachmentCache, "readResult" | "replaceResult">;
}

/**
 * Sets requested routes in the sandbox, the result, and libcni's cache: default
 * routes, which concern all networks of the pod, and routes over this network.
 *
 * @param delegates All networks of the pod
 * @throws {CniError} 7 if a route is not possible. DEL removes the created objects
 */
export async function setRoutes(
  session: RoutingCall,
  delegates: readonly Delegate[],
  attached: Attached,
): Promise<Attached> {
  const isAnyDefault = delegates.some(({ request }) => request.defaultRoute);
  const routed = isAnyDefault
    ? await setDefaultRoute(session, delegates, attached)
    : attached;
  const { routes = [] } = attached.delegate.request;
  if (routes.length === 0) return routed;
  const { applyPodRoutes } = await import("./pod_routes.ts");
  const { args } = session.call;
  const document = applyPodRoutes(
    { ...routed, args, routes },
    routed.document,
  );
  return await replaceResult(session, routed, document);
}

async function setDefaultRoute(
  session: RoutingCall,
  delegates: readonly Delegate[],
  attached: Attached,
): Promise<Attached> {
  const { applyDefaultRoute } = await import("./default_route.ts");
  const { args } = session.call;
  const document = applyDefaultRoute({ ...attached, args, delegates });
  return await replaceResult(session, attached, document);
}

async function replaceResult(
  { call: { args: { containerId } }, cache }: RoutingCall,
  attached: Attached,
  document: Attached["document"],
): Promise<Attached> {
  if (document === attached.document) return attached;
  const { delegate, ifName } = attached;
  const network = networkOf(delegate).name;
  cache.replaceResult({ network, containerId, ifName }, document);
  const { decodeResult } = await import("../../../cni/result/decoding.ts");
  return { ...attached, document, result: decodeResult(document) };
}

/**
 * Checks that the routes that the pod requests over a network exist.
 *
 * @throws {CniError} 999 if a route is missing
 */
export async function checkAttachmentRoutes(
  { call: { args }, cache }: RoutingCall,
  { network, conf: { ifName }, routes = [] }: NetworkAttachment,
): Promise<void> {
  if (routes.length === 0) return;
  const { checkPodRoutes } = await import("./pod_routes.ts");
  const { decodeResult } = await import("../../../cni/result/decoding.ts");
  const key = { network: network.name, containerId: args.containerId, ifName };
  const result = decodeResult(cache.readResult(key) ?? {});
  checkPodRoutes({ args, ifName, routes, result });
}
