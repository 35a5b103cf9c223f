/**
 * Default routes that pods request with `"default-route": ["10.1.1.1"]` of a
 * selected network. They replace the routes of the networks' plugins.
 *
 * The families are independent. If any network of the pod requests an IPv4
 * gateway, it becomes the only IPv4 default route of all networks; IPv6 default
 * routes only change if an IPv6 gateway is also requested. An empty list
 * changes nothing. Routes in tables other than main, such as sbr's, never
 * change.
 *
 * A default route through the requested gateway is kept, with its metric and all
 * other attributes. A new route has no metric, so that it takes precedence.
 *
 * Source: Kubernetes Network Custom Resource Definition De-facto Standard 1.3,
 * 4.1.2.1.9; multus-cni pkg/types/conf.go `CheckGatewayConfig`, where a gateway
 * of one family also removes the default routes of the other.
 *
 * @module
 */

import type { CmdArgs } from "../../../cni/call/args.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import type { Result } from "../../../cni/result/result.ts";
import type { Ip, IpFamily } from "../../../net/ip.ts";
import { openSandbox } from "../../parts/sandbox/sandbox.ts";
import type { Delegate } from "../model/delegate.ts";
import { type DefaultRouteRequest, setDefaultRoutes } from "./gateways.ts";
import { gatewaysOf } from "./steps.ts";
import { addDefaultRoutes, dropDefaultRoutes } from "./result_routes.ts";

const FAMILIES: readonly IpFamily[] = [4, 6];

/** An attachment after its ADD. */
export interface DefaultRouteOptions {
  /** The call's arguments, with the path of the sandbox's namespace. */
  readonly args: Pick<CmdArgs, "netns">;
  /** The attachment's interface in the sandbox. */
  readonly ifName: string;
  /** The network. */
  readonly delegate: Delegate;
  /** All networks of the pod. */
  readonly delegates: readonly Delegate[];
  /** The result of ADD, in its own version. */
  readonly document: JsonObject;
  /** The decoded result. */
  readonly result: Pick<Result, "ips">;
}

/**
 * Sets the requested default routes of an attachment's interface. A failure
 * restores the kernel's routes.
 *
 * @returns The result of ADD with the new default routes; the same object if the
 *   pod requests none
 * @throws {CniError} 1 if the result's version is unknown, 7 if the interface cannot
 * reach the gateway or a different default route takes precedence, 8 if the namespace
 * cannot be opened
 * @throws {Error} Names the request that the kernel refuses
 */
export function applyDefaultRoute(
  { args, ifName, delegate, delegates, document, result }: DefaultRouteOptions,
): JsonObject {
  const requests = listRequests(delegate, delegates);
  if (requests.length === 0) return document;
  // This precedes changes of the kernel's routes, because it can fail.
  const edited = editResult(document, requests);
  using sandbox = openSandbox(args);
  setDefaultRoutes(sandbox, ifName, requests, gatewaysOf(result));
  return edited;
}

/**
 * Lists the requests for each family for which any network of the pod has a request.
 */
function listRequests(
  delegate: Delegate,
  delegates: readonly Delegate[],
): DefaultRouteRequest[] {
  return FAMILIES
    .filter((family) => delegates.some((one) => findGateway(one, family)))
    .map((family) => ({ family, gateway: findGateway(delegate, family) }));
}

function editResult(
  document: JsonObject,
  requests: readonly DefaultRouteRequest[],
): JsonObject {
  const families = requests.map(({ family }) => family);
  const gateways = requests.flatMap(({ gateway }) => gateway ?? []);
  const kept = dropDefaultRoutes(document, families, gateways);
  return addDefaultRoutes(kept, gateways);
}

function findGateway(
  { request }: Delegate,
  family: IpFamily,
): Ip | undefined {
  return request.defaultRoute?.find((ip) => ip.family === family);
}
