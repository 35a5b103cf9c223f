/**
 * The default routes that pods ask for, instead of those that the networks'
 * plugins have made: `"default-route": ["10.1.1.1"]` of a selected network.
 *
 * Each family is for itself. If some network of the pod asks for an IPv4
 * gateway, that is the only IPv4 default route of the networks; default routes
 * of IPv6 stay as they are unless one of IPv6 is asked for too. An empty list
 * asks for none, and changes nothing. Routes of other tables than main, such as
 * those of sbr, are never touched.
 *
 * A default route that is as it was asked for stays, with its metric and
 * whatever else the plugin has set; one that is added has no metric, so that it
 * counts more than any other.
 *
 * Source: Kubernetes Network Custom Resource Definition De-facto Standard 1.3,
 * 4.1.2.1.9; multus-cni pkg/types/conf.go `CheckGatewayConfig`. There a gateway
 * of one family costs all networks the default routes of the other as well.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../cni/error.ts";
import type { JsonObject } from "../../../cni/json.ts";
import type { Ip, IpFamily } from "../../../net/ip.ts";
import { openSandbox } from "../../parts/sandbox.ts";
import { addDefaultRoutes, dropDefaultRoutes } from "./cached_routes.ts";
import type { Delegate } from "../networks/delegate.ts";
import { type DefaultRouteWish, setDefaultRoutes } from "./gateways.ts";

const FAMILIES: readonly IpFamily[] = [4, 6];

/**
 * Marks delegates by what others of the pod ask, as the scratch file has it;
 * nothing is marked if none has a list, be it empty.
 *
 * The marks are those of the reference, which acts on them. Here they are only
 * written down; what is done is {@linkcode applyDefaultRoute}'s to say.
 *
 * @throws {CniError} 7 If two gateways of a family are asked for
 */
export function markDefaultRoutes(delegates: readonly Delegate[]): Delegate[] {
  const isAnyAsked = delegates.some(({ request }) => request.defaultRoute);
  if (!isAnyAsked) return [...delegates];
  const gateways = delegates.flatMap(({ request }) =>
    request.defaultRoute ?? []
  );
  for (const family of FAMILIES) {
    const rivals = gateways.filter((ip) => ip.family === family);
    if (rivals.length > 1) throw severalGateways(rivals);
  }
  return delegates.map((delegate) => ({
    ...delegate,
    isFilterV4Gateway: findGateway(delegate, 4) === undefined,
    isFilterV6Gateway: findGateway(delegate, 6) === undefined,
  }));
}

/** Others compare the message to the letter. */
function severalGateways(gateways: readonly Ip[]): CniError {
  return new CniError(
    ErrorCode.InvalidNetworkConfig,
    "multus does not support ECMP for default-route",
    { details: `the gateways are ${gateways.join(", ")}` },
  );
}

function findGateway(
  { request }: Delegate,
  family: IpFamily,
): Ip | undefined {
  return request.defaultRoute?.find((ip) => ip.family === family);
}

/** An attachment whose ADD is done. */
export interface DefaultRouteOptions {
  /** Path of the sandbox's namespace. */
  readonly netns: string;
  /** The attachment's interface there. */
  readonly ifName: string;
  /** The network. */
  readonly delegate: Delegate;
  /** All networks of the pod. */
  readonly delegates: readonly Delegate[];
  /** What ADD answered, in its own version. */
  readonly document: JsonObject;
}

/**
 * Makes the default routes of an attachment's interface those that the pod asks
 * for. If it fails, the kernel's routes are as they were before.
 *
 * @returns What ADD answered, with the default routes that there are now; the
 *   very same document if nothing is asked of a family
 * @throws {CniError} 1 if nobody knows the result's version, 7 if the interface
 *   cannot reach the gateway or another default route counts more, 8 if the
 *   namespace cannot be opened
 * @throws {Error} That names what the kernel refuses
 */
export function applyDefaultRoute(
  { netns, ifName, delegate, delegates, document }: DefaultRouteOptions,
): JsonObject {
  const wishes = listWishes(delegate, delegates);
  if (wishes.length === 0) return document;
  // First, because it may be refused.
  const edited = editResult(document, wishes);
  using sandbox = openSandbox({ netns });
  setDefaultRoutes(sandbox, ifName, wishes);
  return edited;
}

/** Lists what is to be of each family that some network of the pod asks for. */
function listWishes(
  delegate: Delegate,
  delegates: readonly Delegate[],
): DefaultRouteWish[] {
  return FAMILIES
    .filter((family) => delegates.some((one) => findGateway(one, family)))
    .map((family) => ({ family, gateway: findGateway(delegate, family) }));
}

function editResult(
  document: JsonObject,
  wishes: readonly DefaultRouteWish[],
): JsonObject {
  const families = wishes.map(({ family }) => family);
  const gateways = wishes.flatMap(({ gateway }) => gateway ?? []);
  const kept = dropDefaultRoutes(document, families, gateways);
  return addDefaultRoutes(kept, gateways);
}
