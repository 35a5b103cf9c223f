/**
 * The changes of which `setDefaultRoutes()` is made, and the ways back.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../cni/error.ts";
import { throwAll } from "../../../cni/rollback.ts";
import { isErrno } from "../../../ffi/errno.ts";
import { inNetns, StrandedThreadError } from "../../../ffi/netns.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import {
  type RouteEntry,
  RouteEntryRequests,
} from "../../../ffi/rtnl/route_entry.ts";
import { ensureSysctl, readSysctl } from "../../../ffi/sysctl.ts";
import { Cidr } from "../../../net/cidr.ts";
import { Ip } from "../../../net/ip.ts";

/** A change of the sandbox, and the way back. */
export interface Step {
  /** As in `delete default route via ...`. */
  readonly action: string;
  /** Does it. */
  readonly work: () => void;
  /** Undoes it, also if it was not done. */
  readonly undo: () => void;
}

/**
 * Runs steps; if one fails, undoes it and those before it, last first: one that
 * fails may have been done all the same.
 *
 * @throws What the step threw, named, and with it what could not be undone
 */
export function runAll(ifName: string, steps: readonly Step[]): void {
  for (const [position, step] of steps.entries()) {
    try {
      step.work();
    } catch (error) {
      const begun = steps.slice(0, position + 1).reverse();
      throwAll(
        [
          failure(`${step.action} of "${ifName}"`, error),
          ...begun.flatMap(undo),
        ],
        `Cannot set default routes of "${ifName}"`,
      );
    }
  }
}

function undo({ action, undo }: Step): Error[] {
  try {
    undo();
    return [];
  } catch (error) {
    return [failure(`undo: ${action}`, error)];
  }
}

function failure(action: string, cause: unknown): Error {
  return cause instanceof CniError
    ? cause
    : new Error(`Cannot ${action}`, { cause });
}

/**
 * Makes the error for a gateway that a pod cannot have.
 *
 * @param why As in `there is no such interface`
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

/** Says in words which default route is meant. */
export function describe({ nextHops }: RouteEntry): string {
  const gateways = nextHops.flatMap(({ gateway }) => gateway ?? []);
  return gateways.length === 0
    ? "default route"
    : `default route via ${gateways.join(", ")}`;
}

/**
 * Deletes the ways of a default route that lead out by a link. The kernel
 * deletes a route of IPv4 with all its ways, so the others are added again.
 */
export function deleting(
  sandbox: Rtnl,
  { index }: Link,
  entry: RouteEntry,
): Step[] {
  const requests = new RouteEntryRequests(sandbox.socket);
  const isWhole = entry.family === 4 || entry.isOnlyOver(index);
  const deleted = isWhole ? entry : entry.over(index) ?? entry;
  const rest = isWhole ? entry.besides(index) : undefined;
  return [
    {
      action: `delete ${describe(deleted)}`,
      work: () => unless("ESRCH", () => requests.del(deleted)),
      undo: () => unless("EEXIST", () => requests.append(deleted)),
    },
    ...rest === undefined ? [] : [{
      action: `keep ${describe(rest)}`,
      work: () => requests.append(rest),
      undo: () => unless("ESRCH", () => requests.del(rest)),
    }],
  ];
}

/**
 * Adds a default route over a link, without a metric. Its work throws a
 * CniError 7 if the gateway cannot be reached.
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
    undo: () => unless("ESRCH", () => sandbox.route.del(route)),
  };
}

/**
 * Checks that the addresses leave no doubt that the gateway is on the link,
 * where no route of table main says so: it is on one of their subnets, whose
 * route sbr has moved; or there is no subnet, as with a /32, where it can be
 * nowhere else. What remains is a mistake in the annotation.
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

/** Does something that may be done already. */
function unless(errno: string, work: () => void): void {
  try {
    work();
  } catch (error) {
    if (!isErrno(error, errno)) throw error;
  }
}

/**
 * Stops the kernel from learning default routes from routers that advertise
 * themselves: the next advertisement would bring back what is deleted.
 */
export function ignoringRouters({ netns }: Rtnl, { name }: Link): Step {
  const key = `net/ipv6/conf/${name}/accept_ra_defrtr`;
  let before: string | undefined;
  const attempt = (work: () => void): void => {
    try {
      inNetns(netns, work);
    } catch (error) {
      if (error instanceof StrandedThreadError) throw error;
      // There is no IPv6, or /proc/sys is read-only. What is deleted may come
      // back then, which is better than no network at all.
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
