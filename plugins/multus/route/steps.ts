/**
 * Steps that change the routes of an interface.
 *
 * @module
 */

import { CniError } from "../../../base/error.ts";
import { throwAll } from "../../../base/rollback.ts";
import type { Result } from "../../../cni/result/result.ts";
import { isErrno } from "../../../ffi/errno.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { Route } from "../../../ffi/rtnl/route.ts";
import type { Ip, IpFamily } from "../../../net/ip.ts";
import {
  type PlannedStep,
  undoAll,
} from "../../parts/sandbox/planned_steps.ts";

/**
 * Metric of a route that is added without a metric. Source: include/net/ip6_fib.h
 * `IP6_RT_PRIO_USER`.
 */
export const UNSET_METRIC: Readonly<Record<IpFamily, number>> = {
  4: 0,
  6: 1024,
};

/** Builds the error for a route that the annotation must not contain. */
export type Refuse = (why: string) => CniError;

/** The interface that gets a route. */
export interface RoutedInterface {
  readonly sandbox: Rtnl;
  readonly link: Link;
  /** The gateways of the network's own addresses. */
  readonly gateways: readonly Ip[];
}

/** Lists the gateways of a result's addresses. */
export function gatewaysOf({ ips }: Pick<Result, "ips">): Ip[] {
  return ips.flatMap(({ gateway }) => gateway ?? []);
}

/**
 * Adds a route over a link. The step throws the error of `refuse` if the gateway is
 * unreachable.
 */
export function addRouteStep(
  target: RoutedInterface,
  { gateway, ...others }: Omit<Route, "ifindex">,
  refuse: Refuse,
): PlannedStep {
  const { sandbox, link } = target;
  const route = { ...others, gateway, ifindex: link.index };
  const via = gateway === undefined ? "" : ` via ${gateway}`;
  return {
    action: `add route ${route.destination}${via}`,
    work: (): void => {
      try {
        sandbox.route.add(route);
      } catch (error) {
        const isUnreachable = isErrno(error, "ENETUNREACH", "EHOSTUNREACH");
        if (!isUnreachable || gateway === undefined) throw error;
        requireOnLink(target, gateway, refuse);
        sandbox.route.add({ ...route, isOnLink: true });
      }
    },
    undo: () => sandbox.route.del(route),
  };
}

/**
 * Checks with the addresses that the gateway is on the link, unless a route in table
 * main shows it: the gateway is the network's own, or in one of the subnets (sbr has
 * moved the route), or there is no subnet, as with a /32. Any other gateway is a
 * mistake in the annotation.
 */
function requireOnLink(
  { sandbox, link: { index }, gateways }: RoutedInterface,
  gateway: Ip,
  refuse: Refuse,
): void {
  if (gateways.some((own) => own.equals(gateway))) return;
  const { family } = gateway;
  const addresses = sandbox.address.list({ ifindex: index, family })
    .map(({ address }) => address)
    .filter(({ ip }) => family === 4 || !ip.isLinkLocal);
  const subnets = addresses.filter((one) =>
    one.prefixLength < one.ip.bitLength
  );
  if (addresses.length > 0 && subnets.length === 0) return;
  if (subnets.some((subnet) => subnet.contains(gateway))) return;
  throw refuse(
    addresses.length === 0
      ? `the interface has no IPv${family} address`
      : `the gateway is not in ${
        subnets.map((subnet) => subnet.masked()).join(" or ")
      }`,
  );
}

/**
 * Runs steps. If a step fails, undoes it and the earlier steps, last first, because a
 * failed step might have taken effect.
 *
 * @param texts The text after each action in errors, and the text for all actions
 * @throws The step's error with its name, and the errors of undoing
 */
export function runAll(
  steps: readonly PlannedStep[],
  { each, all }: { readonly each: string; readonly all: string },
): void {
  for (const [position, step] of steps.entries()) {
    try {
      step.work();
    } catch (error) {
      const failure = error instanceof CniError
        ? error
        : new Error(`Cannot ${step.action} ${each}`, { cause: error });
      throwAll(
        [failure, ...undoAll(steps.slice(0, position + 1))],
        `Cannot ${all}`,
      );
    }
  }
}
