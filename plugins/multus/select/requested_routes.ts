/**
 * The routes that a pod requests over a network.
 *
 * ```
 * [{ "name": "storage", "dev.cni.routes": [{ "dst": "10.50.0.0/16", "gw": "10.1.1.1" }] }]
 * ```
 *
 * The specification keeps names without a dot for itself, and wants keys of
 * others in reverse domain name notation. Other implementations ignore the key.
 *
 * Source: Kubernetes Network Custom Resource Definition De-facto Standard 1.3,
 * 4.1.2.1; CNI spec 1.1.0, "Add Success", for the keys of a route.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import type { Route } from "../../../cni/result/result.ts";
import {
  findUnfitValue,
  isInMain,
  RouteScope,
  RouteTable,
} from "../../../cni/result/route.ts";
import type { Ip } from "../../../net/ip.ts";
import type { MultusConfig } from "../model/config.ts";
import {
  type Delegate,
  type NetworkSelection,
  ROUTES,
} from "../model/delegate.ts";
import { refusal } from "../model/network_error.ts";

/** Limits the routes of an annotation, which has room for thousands. */
const MAX_ROUTES = 256;

/**
 * Checks the routes of an annotation's networks.
 *
 * @throws {CniError} 7 If one cannot be meant, or there are more than 256
 */
export function checkRequestedRoutes(
  selections: readonly NetworkSelection[],
): void {
  let count = 0;
  for (const { name, request: { routes = [] } } of selections) {
    count += routes.length;
    const seen = new Set<string>();
    for (const [index, route] of routes.entries()) {
      const problem = findProblem(route) ?? findRepetition(route, seen);
      if (problem === undefined) continue;
      throw refused(
        `network ${JSON.stringify(name)}: ${ROUTES}[${index}]: ${problem}`,
      );
    }
  }
  if (count <= MAX_ROUTES) return;
  throw refused(
    `the annotation has ${count} routes; a pod can have ${MAX_ROUTES}`,
  );
}

function refused(problem: string): CniError {
  return new CniError(
    ErrorCode.InvalidNetworkConfig,
    `parsePodNetworkAnnotation: ${problem}`,
  );
}

function findProblem(route: Route): string | undefined {
  const { dst, gw, scope = 0, table, unknownKeys = {} } = route;
  const [unknown] = Object.keys(unknownKeys);
  if (unknown !== undefined) return `unknown key ${JSON.stringify(unknown)}`;
  const unfit = findUnfitValue(route);
  if (unfit !== undefined) return unfit;
  if (scope !== RouteScope.global && scope !== RouteScope.link) {
    return `scope ${scope}: expected ${RouteScope.global} (global) or ${RouteScope.link} (link)`;
  }
  if (table === RouteTable.local) return `table ${table} is the kernel's own`;
  if (dst.prefixLength === 0 && isInMain(route)) {
    return `a default route needs "default-route", or a different table`;
  }
  return gw && findGatewayProblem(gw, route);
}

function findGatewayProblem(gw: Ip, { scope }: Route): string | undefined {
  if (scope === RouteScope.link) {
    return `gw ${gw}: a route of scope ${RouteScope.link} must not have a gateway`;
  }
  return gw.isGlobalUnicast || gw.isLinkLocal
    ? undefined
    : `gw ${gw}: it is not a host address`;
}

function findRepetition(route: Route, seen: Set<string>): string | undefined {
  const { dst, priority = 0, table } = route;
  const place = isInMain(route) ? RouteTable.main : table;
  const key = `${dst.masked()} ${priority} ${place}`;
  if (seen.has(key)) return `there is another route to ${dst.masked()}`;
  seen.add(key);
  return undefined;
}

/**
 * Refuses routes that the node's configuration does not allow to pods. With a
 * route, a pod sends packets past the cluster's network.
 *
 * @throws {NetworkError} 7 If `podRoutes` does not contain the destination of one
 */
export function checkPermittedRoutes(
  delegates: readonly Delegate[],
  { podRoutes }: Pick<MultusConfig, "podRoutes">,
): void {
  for (const { name, request: { routes = [] } } of delegates) {
    const route = routes.find(({ dst }) =>
      !podRoutes.some((permitted) => permitted.containsCidr(dst))
    );
    if (route === undefined) continue;
    throw refusal(
      `Refused route ${route.dst.masked()} of "${ROUTES}" over network "${name}": ` +
        `"podRoutes" of the node's multus configuration does not contain the destination`,
    );
  }
}
