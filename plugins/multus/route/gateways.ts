/**
 * Sets the default gateways of one interface in the kernel.
 *
 * @module
 */

import type { Link } from "../../../ffi/rtnl/link.ts";
import { Table } from "../../../ffi/rtnl/constants.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { type RouteEntry } from "../../../ffi/rtnl/route_entry.ts";
import type { Ip, IpFamily } from "../../../net/ip.ts";
import type { Step } from "../../parts/planned_steps.ts";
import {
  adding,
  deleting,
  describe,
  ignoringRouters,
  refused,
  runAll,
} from "./gateway_steps.ts";

/** The default routes to set for one family. */
export interface DefaultRouteWish {
  /** IPv4 or IPv6. */
  readonly family: IpFamily;
  /** The only gateway; undefined for no default route. */
  readonly gateway: Ip | undefined;
}

/** Metric of a route added without one. Source: include/net/ip6_fib.h `IP6_RT_PRIO_USER`. */
const UNSET_METRIC: Readonly<Record<IpFamily, number>> = { 4: 0, 6: 1024 };

/**
 * Sets the default routes of an interface in table main: deletes conflicting
 * routes, and adds missing ones. A failure restores the routes.
 *
 * @param sandbox Borrowed, not closed
 * @param wishes One for each family to change
 * @throws {CniError} 7 If the interface is missing or cannot reach the gateway,
 *   or another interface's default route takes precedence
 * @throws {Error} Names the request that the kernel refuses, and the routes that
 *   could not be restored
 */
export function setDefaultRoutes(
  sandbox: Rtnl,
  ifName: string,
  wishes: readonly DefaultRouteWish[],
): void {
  const link = sandbox.link.find(ifName);
  if (link === undefined) return requireNoGateway(ifName, wishes);
  const entries = sandbox.route.listEntries()
    .filter((entry) =>
      entry.isDefault && entry.isUnicast && entry.table === Table.Main
    );
  runAll(
    ifName,
    wishes.flatMap((wish) => planFamily({ sandbox, link, entries }, wish)),
  );
}

/** Some plugins create no interface, so that there is nothing to delete. */
function requireNoGateway(
  ifName: string,
  wishes: readonly DefaultRouteWish[],
): void {
  const gateways = wishes.flatMap(({ gateway }) => gateway ?? []);
  if (gateways.length === 0) return;
  throw refused(gateways.join(", "), ifName, "there is no such interface");
}

/** The current state. */
interface Scene {
  readonly sandbox: Rtnl;
  /** The interface. */
  readonly link: Link;
  /** Default routes in table main, of all interfaces and both families. */
  readonly entries: readonly RouteEntry[];
}

/** @throws {CniError} 7 If another route would take precedence over the gateway's */
function planFamily(
  scene: Scene,
  { family, gateway }: DefaultRouteWish,
): Step[] {
  const { sandbox, link } = scene;
  const entries = scene.entries.filter((entry) => entry.family === family);
  const own = entries.filter((entry) => entry.over(link.index) !== undefined);
  const kept = own.filter((entry) => isVia(entry, link, gateway));
  const removals = own.filter((entry) => !kept.includes(entry));
  const isMissing = gateway !== undefined && kept.length === 0;
  if (gateway !== undefined) {
    const metrics = kept.map(({ priority }) => priority);
    const metric = isMissing ? UNSET_METRIC[family] : Math.min(...metrics);
    requireFirst({ ...scene, entries }, gateway, metric);
  }
  return [
    ...family === 6 ? [ignoringRouters(sandbox, link)] : [],
    ...removals.flatMap((entry) => deleting(sandbox, link, entry)),
    ...isMissing ? [adding(sandbox, link, gateway)] : [],
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

/** @throws {CniError} 7 If packets would leave through another interface */
function requireFirst(
  { sandbox, link, entries }: Scene,
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
    } over "${name}" with metric ${rival.priority} is in the way`,
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
