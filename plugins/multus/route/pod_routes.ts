/**
 * Routes that pods request over a network, in addition to its plugins' routes.
 *
 * A route must not replace a route of another network of the pod: neither a route to
 * the same destination with the same metric, nor a part of a subnet on another
 * interface, such as the gateway of the cluster's network.
 *
 * @module
 */

import type { CmdArgs } from "../../../cni/call/args.ts";
import { CniError, ErrorCode } from "../../../base/error.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import type { Result, Route } from "../../../cni/result/result.ts";
import { RouteScope, RouteTable } from "../../../cni/result/route.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { Route as KernelRoute } from "../../../ffi/rtnl/route.ts";
import type { RouteEntry } from "../../../ffi/rtnl/route_entry.ts";
import type { IpFamily } from "../../../net/ip.ts";
import { lackOfRoute, throwDifferences } from "../../parts/link/check_link.ts";
import { kernelRouteOf } from "../../parts/link/configure_link.ts";
import type { PlannedStep } from "../../parts/sandbox/planned_steps.ts";
import { openSandbox } from "../../parts/sandbox/sandbox.ts";
import { ROUTES } from "../model/delegate.ts";
import { addRoutes } from "./result_routes.ts";
import {
  addRouteStep,
  gatewaysOf,
  type RoutedInterface,
  runAll,
  UNSET_METRIC,
} from "./steps.ts";

/** An attachment with the routes that the pod requests. */
export interface PodRoutesOptions {
  /** The call's arguments, with the path of the sandbox's namespace. */
  readonly args: Pick<CmdArgs, "netns">;
  /** The attachment's interface in the sandbox. */
  readonly ifName: string;
  /** The requested routes. */
  readonly routes: readonly Route[];
  /** The result of ADD. */
  readonly result: Pick<Result, "ips">;
}

/**
 * Adds the requested routes of an attachment. A failure removes the routes that were
 * added.
 *
 * @param document The result of ADD, in its own version
 * @returns The result with these routes
 * @throws {CniError} 7 if the pod cannot have a route, 8 if the namespace cannot
 *   be opened
 * @throws {Error} Names the request that the kernel refuses
 */
export function applyPodRoutes(
  { args, ifName, routes, result }: PodRoutesOptions,
  document: JsonObject,
): JsonObject {
  const { ips } = result;
  const wanted = routes.map((route) => kernelRouteOf(route, ips));
  // This precedes changes of the kernel's routes, because it can fail.
  const edited = addRoutes(
    document,
    routes.map((route, index) => ({
      ...route,
      dst: route.dst.masked(),
      gw: wanted[index]?.gateway,
    })),
  );
  using sandbox = openSandbox(args);
  const state = readState({
    sandbox,
    link: findLink(sandbox, ifName, wanted),
    gateways: gatewaysOf(result),
  });
  runAll(
    wanted.flatMap((route) => planRoute(state, route)),
    {
      each: `of "${ROUTES}" to "${ifName}"`,
      all: `add routes of "${ROUTES}" to "${ifName}"`,
    },
  );
  return edited;
}

/** Some plugins create no interface. */
function findLink(
  sandbox: Rtnl,
  ifName: string,
  [first]: readonly KernelRoute[],
): Link {
  const link = sandbox.link.find(ifName);
  if (link !== undefined) return link;
  throw refused(describe(first), ifName, "there is no such interface");
}

/** The current state. */
interface RouteState extends RoutedInterface {
  /** The families of the interface's addresses. */
  readonly families: readonly IpFamily[];
  /** The interface's routes, in all tables. */
  readonly own: readonly KernelRoute[];
  /** All routes of the sandbox. */
  readonly entries: readonly RouteEntry[];
}

function readState(target: RoutedInterface): RouteState {
  const { sandbox, link } = target;
  const addresses = sandbox.address.list({ ifindex: link.index });
  return {
    ...target,
    families: addresses.map(({ address }) => address.family),
    own: listOver(sandbox, link),
    entries: sandbox.route.listEntries(),
  };
}

/** @returns No step for a route that the network's plugins have added */
function planRoute(state: RouteState, route: KernelRoute): PlannedStep[] {
  const { link, families, own } = state;
  const refuse = (why: string): CniError =>
    refused(describe(route), link.name, why);
  const { family } = route.destination;
  if (route.gateway === undefined && route.scope !== RouteScope.link) {
    throw refuse(
      `the network has no IPv${family} gateway: the route needs "gw", or ` +
        `"scope": ${RouteScope.link} if its destination is on the link`,
    );
  }
  if (!families.includes(family)) {
    throw refuse(`the interface has no IPv${family} address`);
  }
  if (own.some((other) => isSame(route, other))) return [];
  const conflict = findConflict(state, route);
  if (conflict === undefined) return [addRouteStep(state, route, refuse)];
  throw refuse(
    `the route to ${conflict.destination}${
      nameLinks(state, conflict)
    } conflicts with it`,
  );
}

function listOver({ route }: Rtnl, { index }: Link): KernelRoute[] {
  return route.list({ ifindex: index, table: "any" });
}

function isSame(wanted: KernelRoute, actual: KernelRoute): boolean {
  return wanted.destination.equals(actual.destination) &&
    (wanted.table ?? RouteTable.main) === actual.table &&
    metricOf(wanted) === metricOf(actual) &&
    (wanted.gateway === undefined
      ? actual.gateway === undefined
      : actual.gateway?.equals(wanted.gateway) === true) &&
    (wanted.mtu === undefined || wanted.mtu === actual.mtu) &&
    (wanted.advmss === undefined || wanted.advmss === actual.advmss);
}

function metricOf({ destination, priority }: KernelRoute): number {
  return priority || UNSET_METRIC[destination.family];
}

/**
 * Finds a route that the kernel does not permit next to the new route, or a subnet of
 * another interface that the new route overlaps.
 */
function findConflict(
  { link, entries }: RouteState,
  route: KernelRoute,
): RouteEntry | undefined {
  const { destination, table = RouteTable.main } = route;
  return entries.find((entry) =>
    entry.family === destination.family && entry.table === table &&
    (entry.destination.equals(destination)
      ? entry.priority === metricOf(route)
      : !entry.hasGateway && entry.isUnicast && !entry.isDefault &&
        entry.over(link.index) === undefined && !isOfEveryLink(entry) &&
        entry.destination.containsCidr(destination))
  );
}

/** Every interface has fe80::/64 and ff00::/8. */
function isOfEveryLink({ destination: { ip } }: RouteEntry): boolean {
  return ip.family === 6 && (ip.isLinkLocal || ip.isMulticast);
}

function nameLinks({ sandbox }: RouteState, { nextHops }: RouteEntry): string {
  const names = nextHops.flatMap(({ ifindex }) =>
    ifindex === undefined ? [] : sandbox.link.find(ifindex)?.name ?? []
  );
  return names.map((name) => ` over "${name}"`).join(" and");
}

function describe(route: KernelRoute | undefined): string {
  const via = route?.gateway === undefined ? "" : ` via ${route.gateway}`;
  return `${route?.destination}${via}`;
}

function refused(route: string, ifName: string, why: string): CniError {
  return new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot add route ${route} of "${ROUTES}" to "${ifName}": ${why}`,
  );
}

/**
 * Checks that the requested routes of an attachment exist.
 *
 * @throws {CniError} 999 if a route is missing, 8 if the namespace cannot be opened
 */
export function checkPodRoutes(
  { args, ifName, routes, result: { ips } }: PodRoutesOptions,
): void {
  using sandbox = openSandbox(args);
  const link = sandbox.link.find(ifName);
  const present = link === undefined ? [] : listOver(sandbox, link);
  const missing = routes.map((route) => kernelRouteOf(route, ips))
    .filter((route) => !present.some((other) => isSame(route, other)));
  throwDifferences(missing.map((route) => {
    const { msg, expected } = lackOfRoute(sandbox, ifName, route);
    return { msg: `${msg} of "${ROUTES}"`, expected };
  }));
}
