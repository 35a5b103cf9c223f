/**
 * The steps of `setDefaultRoutes()`, and how to undo them.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../cni/error.ts";
import { throwAll } from "../../../cni/call/rollback.ts";
import { isErrno } from "../../../ffi/errno.ts";
import { inNetns, StrandedThreadError } from "../../../ffi/netns.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { type RouteEntry } from "../../../ffi/rtnl/route_entry.ts";
import { ensureSysctl, readSysctl } from "../../../ffi/sysctl.ts";
import { Cidr } from "../../../net/cidr.ts";
import { Ip } from "../../../net/ip.ts";
import { type Step, undoAll } from "../../parts/planned_steps.ts";

/**
 * Runs steps. If one fails, undoes it and the earlier ones, last first: a failed
 * step may have taken effect.
 *
 * @throws The step's error with its name, and the errors of undoing
 */
export function runAll(ifName: string, steps: readonly Step[]): void {
  for (const [position, step] of steps.entries()) {
    try {
      step.work();
    } catch (error) {
      const failure = error instanceof CniError
        ? error
        : new Error(`Cannot ${step.action} of "${ifName}"`, { cause: error });
      throwAll(
        [failure, ...undoAll(steps.slice(0, position + 1))],
        `Cannot set default routes of "${ifName}"`,
      );
    }
  }
}

/**
 * Builds the error for a gateway that cannot be set.
 *
 * @param why Such as `there is no such interface`
 */
export function refused(
  gateway: string | Ip,
  ifName: string,
  why: string,
): CniError {
  return new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot set default route via ${gateway} of "${ifName}": ${why}`,
  );
}

/** Describes a default route in words. */
export function describe({ nextHops }: RouteEntry): string {
  const gateways = nextHops.flatMap(({ gateway }) => gateway ?? []);
  return gateways.length === 0
    ? "default route"
    : `default route via ${gateways.join(", ")}`;
}

/**
 * Deletes the nexthops of a default route that use a link. The kernel deletes an
 * IPv4 route with all its nexthops, so the others are added again.
 */
export function deleting(
  sandbox: Rtnl,
  { index }: Link,
  entry: RouteEntry,
): Step[] {
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
 * Adds a default route over a link, without a metric. The step throws CniError 7
 * if the gateway is unreachable.
 */
export function adding(sandbox: Rtnl, link: Link, gateway: Ip): Step {
  const destination = Cidr.of(Ip.fromValue(gateway.family, 0n), 0);
  const route = { destination, ifindex: link.index, gateway };
  return {
    action: `add default route via ${gateway}`,
    work: (): void => {
      try {
        sandbox.route.add(route);
      } catch (error) {
        if (!isErrno(error, "ENETUNREACH", "EHOSTUNREACH")) throw error;
        requireOnLink(sandbox, link, gateway);
        sandbox.route.add({ ...route, isOnLink: true });
      }
    },
    undo: () => sandbox.route.del(route),
  };
}

/**
 * Checks by the addresses that the gateway is on the link, if no route in table
 * main does: it is in one of their subnets (sbr has moved the route), or there is
 * no subnet, as with a /32. Anything else is a mistake in the annotation.
 *
 * @throws {CniError} 7
 */
function requireOnLink(
  sandbox: Rtnl,
  { index, name }: Link,
  gateway: Ip,
): void {
  const { family } = gateway;
  const addresses = sandbox.address.list({ ifindex: index, family })
    .map(({ address }) => address)
    .filter(({ ip }) => family === 4 || !ip.isLinkLocal);
  const subnets = addresses.filter((one) =>
    one.prefixLength < one.ip.bitLength
  );
  if (addresses.length > 0 && subnets.length === 0) return;
  if (subnets.some((subnet) => subnet.contains(gateway))) return;
  throw refused(
    gateway,
    name,
    addresses.length === 0
      ? `the interface has no IPv${family} address`
      : `the gateway is not in ${
        subnets.map((subnet) => subnet.masked()).join(" or ")
      }`,
  );
}

/**
 * Stops the kernel from learning default routes from router advertisements: the
 * next one would restore the deleted route.
 */
export function ignoringRouters({ netns }: Rtnl, { name }: Link): Step {
  const key = `net/ipv6/conf/${name}/accept_ra_defrtr`;
  let before: string | undefined;
  const attempt = (work: () => void): void => {
    try {
      inNetns(netns, work);
    } catch (error) {
      if (error instanceof StrandedThreadError) throw error;
      // IPv6 is missing, or /proc/sys is read-only. A deleted route may come back
      // then, which is better than no network.
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
