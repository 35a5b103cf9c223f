/**
 * Sets the default gateways of an interface in the kernel.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import { isErrno } from "../../../ffi/errno.ts";
import { inNetns } from "../../../ffi/netns.ts";
import { Table } from "../../../ffi/rtnl/constants.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { RouteEntry } from "../../../ffi/rtnl/route_entry.ts";
import { ensureSysctl, readSysctl } from "../../../ffi/sysctl.ts";
import { Cidr } from "../../../net/cidr.ts";
import { Ip, type IpFamily } from "../../../net/ip.ts";
import type { PlannedStep } from "../../parts/sandbox/planned_steps.ts";
import {
  addRouteStep,
  type RoutedInterface,
  runAll,
  UNSET_METRIC,
} from "./steps.ts";

/** The default routes to set for a family. */
export interface DefaultRouteRequest {
  /** IPv4 or IPv6. */
  readonly family: IpFamily;
  /** The only gateway; undefined for no default route. */
  readonly gateway: Ip | undefined;
}

/**
 * Sets the default routes of an interface in table main: deletes conflicting routes,
 * and adds missing routes. A failure restores the routes.
 *
 * @param sandbox Borrowed, not closed
 * @param requests A request for each family to change
 * @param gateways The gateways of the network's own addresses
 * @throws {CniError} 7 If the interface is missing or cannot reach the gateway, or
 * the default route of a different interface takes precedence
 * @throws {Error} Names the request that the kernel refuses, and the routes that
 *   could not be restored
 */
export function setDefaultRoutes(
  sandbox: Rtnl,
  ifName: string,
  requests: readonly DefaultRouteRequest[],
  gateways: readonly Ip[] = [],
): void {
  const link = sandbox.link.find(ifName);
  if (link === undefined) return requireNoGateway(ifName, requests);
  const entries = sandbox.route.listEntries()
    .filter((entry) =>
      entry.isDefault && entry.isUnicast && entry.table === Table.Main
    );
  runAll(
    requests.flatMap((request) =>
      planFamily({ sandbox, link, entries, gateways }, request)
    ),
    { each: `of "${ifName}"`, all: `set default routes of "${ifName}"` },
  );
}

/** Some plugins create no interface, so there is nothing to delete. */
function requireNoGateway(
  ifName: string,
  requests: readonly DefaultRouteRequest[],
): void {
  const gateways = requests.flatMap(({ gateway }) => gateway ?? []);
  if (gateways.length === 0) return;
  throw refused(gateways.join(", "), ifName, "there is no such interface");
}

/** The current state. */
interface RouteState extends RoutedInterface {
  /** Default routes in table main, of all interfaces and both families. */
  readonly entries: readonly RouteEntry[];
}

/**
 * @throws {CniError} 7 If a different route would take precedence over the gateway's
 * route
 */
function planFamily(
  state: RouteState,
  { family, gateway }: DefaultRouteRequest,
): PlannedStep[] {
  const { sandbox, link } = state;
  const entries = state.entries.filter((entry) => entry.family === family);
  const own = entries.filter((entry) => entry.over(link.index) !== undefined);
  const kept = own.filter((entry) => isVia(entry, link, gateway));
  const removals = own.filter((entry) => !kept.includes(entry));
  const isMissing = gateway !== undefined && kept.length === 0;
  if (gateway !== undefined) {
    const metrics = kept.map(({ priority }) => priority);
    const metric = isMissing ? UNSET_METRIC[family] : Math.min(...metrics);
    requireFirst({ ...state, entries }, gateway, metric);
  }
  return [
    ...family === 6 ? [ignoringRouters(sandbox, link)] : [],
    ...removals.flatMap((entry) => deleting(sandbox, link, entry)),
    ...isMissing ? [addingDefault(state, gateway)] : [],
  ];
}

/** Reports whether a route has exactly this gateway. */
function isVia(
  { nextHops: [hop, ...others] }: RouteEntry,
  { index }: Link,
  gateway: Ip | undefined,
): boolean {
  return others.length === 0 && hop?.ifindex === index &&
    gateway !== undefined && hop.gateway?.equals(gateway) === true;
}

/** @throws {CniError} 7 If packets would leave through a different interface */
function requireFirst(
  { sandbox, link, entries }: RouteState,
  gateway: Ip,
  metric: number,
): void {
  const rival = entries.find((entry) =>
    !entry.isOnlyOver(link.index) && entry.priority <= metric
  );
  if (rival === undefined) return;
  const name = nameOtherLink(sandbox, link, rival);
  throw refused(
    gateway,
    link.name,
    `the ${
      describe(rival)
    } over "${name}" with metric ${rival.priority} conflicts with it`,
  );
}

function nameOtherLink(
  sandbox: Rtnl,
  { index }: Link,
  { nextHops }: RouteEntry,
): string {
  const other = nextHops.find((hop) => hop.ifindex !== index)?.ifindex ?? 0;
  return sandbox.link.find(other)?.name ?? String(other);
}

/**
 * Builds the error for a gateway that cannot be set.
 *
 * @param why The reason, such as `there is no such interface`
 */
function refused(
  gateway: string | Ip,
  ifName: string,
  why: string,
): CniError {
  return new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot set default route via ${gateway} of "${ifName}": ${why}`,
  );
}

/** Describes a default route as text. */
function describe({ nextHops }: RouteEntry): string {
  const gateways = nextHops.flatMap(({ gateway }) => gateway ?? []);
  return gateways.length === 0
    ? "default route"
    : `default route via ${gateways.join(", ")}`;
}

/**
 * Deletes the nexthops of a default route that use a link. The kernel deletes an IPv4
 * route with all its nexthops, so the remaining nexthops are added again.
 */
function deleting(
  sandbox: Rtnl,
  { index }: Link,
  entry: RouteEntry,
): PlannedStep[] {
  const requests = sandbox.route;
  const isWhole = entry.family === 4 || entry.isOnlyOver(index);
  const deleted = isWhole ? entry : entry.over(index) ?? entry;
  const rest = isWhole ? entry.besides(index) : undefined;
  return [
    {
      action: `delete ${describe(deleted)}`,
      work: (): void => {
        try {
          requests.delEntry(deleted);
        } catch (error) {
          if (!isErrno(error, "ESRCH")) throw error;
        }
      },
      undo: () => requests.append(deleted),
    },
    ...rest === undefined ? [] : [{
      action: `keep ${describe(rest)}`,
      work: () => requests.append(rest),
      undo: () => requests.delEntry(rest),
    }],
  ];
}

/**
 * Adds a default route over a link, without a metric. The step throws CniError 7 if
 * the gateway is unreachable.
 */
function addingDefault(target: RoutedInterface, gateway: Ip): PlannedStep {
  const destination = Cidr.of(Ip.fromValue(gateway.family, 0n), 0);
  return {
    ...addRouteStep(
      target,
      { destination, gateway },
      (why) => refused(gateway, target.link.name, why),
    ),
    action: `add default route via ${gateway}`,
  };
}

/**
 * Stops the kernel from learning default routes from router advertisements, because
 * the next advertisement would restore the deleted route.
 */
function ignoringRouters({ netns }: Rtnl, { name }: Link): PlannedStep {
  const key = `net/ipv6/conf/${name}/accept_ra_defrtr`;
  let before: string | undefined;
  const attempt = (work: () => void): void => {
    try {
      inNetns(netns, work);
    } catch {
      // IPv6 is missing, or /proc/sys is read-only. A deleted route might then be
      // restored, which is better than no network.
    }
  };
  return {
    action: `ignore routers on "${name}"`,
    work: () =>
      attempt(() => {
        before = readSysctl(key);
        ensureSysctl(key, "0");
      }),
    undo: () =>
      attempt(() =>
        before === undefined ? undefined : ensureSysctl(key, before)
      ),
  };
}
