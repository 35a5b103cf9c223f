/**
 * CHECK: compares an interface with a result.
 *
 * @module
 */

import type { CmdArgs } from "../../../cni/call/args.ts";
import {
  type Difference,
  Differences,
  type ExpectedLink,
  type KernelObject,
} from "../../../cni/call/differences.ts";
import { CniError, ErrorCode } from "../../../base/error.ts";
import type { Interface, Result } from "../../../cni/result/result.ts";
import { withoutLearned } from "../../../cni/result/learned.ts";
import { isSameFile } from "../../../base/files/same_file.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { Route } from "../../../ffi/rtnl/route.ts";
import type { NetNs } from "../../../ffi/netns.ts";
import type { Cidr } from "../../../net/cidr.ts";
import { kernelRouteOf, listAddresses, withAction } from "./configure_link.ts";
import { FORWARDING, listForwardingOff } from "../address/ip_forward.ts";

/**
 * Returns the error for a state that differs from the state after ADD.
 *
 * @param msg Describes the difference
 * @param expected The object after ADD, from which tools derive the repair
 */
export function checkFailure(msg: string, expected?: KernelObject): CniError {
  return new CniError(ErrorCode.Internal, msg, {
    differences: expected && [expected],
  });
}

/**
 * Throws the differences, if any.
 *
 * @throws {CniError} 999
 */
export function throwDifferences(found: readonly Difference[]): void {
  const differences = new Differences();
  differences.add(...found);
  differences.throwAny();
}

/**
 * Finds the container's interface in a result, which can contain a different path for
 * the same sandbox.
 *
 * @throws {CniError} 999 if the result does not contain it
 */
export function sandboxInterfaceOf(
  { interfaces }: Result,
  { ifName, netns }: CmdArgs,
): Interface {
  const named = interfaces.filter(({ name, sandbox }) =>
    name === ifName && sandbox
  );
  const [first] = named;
  if (first === undefined) {
    throw checkFailure(`prevResult has no interface "${ifName}" in a sandbox`);
  }
  const found = named.find(({ sandbox = "" }) =>
    sandbox === netns || isSameFile(sandbox, netns)
  );
  if (found !== undefined) return found;
  throw checkFailure(
    `Sandbox in prevResult ${first.sandbox} doesn't match configured netns: ${netns}`,
  );
}

/**
 * Checks that a link exists, has the kind and the result's MAC, and is up.
 *
 * @param kind Any kind if undefined
 * @throws {CniError} 999 if not
 */
export function checkLink(
  rtnl: Rtnl,
  expected: Interface,
  kind?: string,
): Link {
  const differences = new Differences();
  const link = compareLink(differences, rtnl, expected, { kind });
  differences.throwAny();
  return link;
}

/** The settings of a link that CHECK compares. */
type ComparedSettings = Omit<ExpectedLink, "kind" | "netns" | "link">;

/**
 * Describes a link whose settings differ from ADD's settings.
 *
 * @param problem Completes a sentence that begins with the interface's name
 */
export function linkDifference(
  { netns }: Pick<Rtnl, "netns">,
  { name }: Pick<Link, "name">,
  problem: string,
  settings?: ComparedSettings,
): Difference {
  return {
    msg: `Interface "${name}" ${problem}`,
    expected: { kind: "link", netns: netns.path, link: name, ...settings },
  };
}

/**
 * Compares a link's MAC and state with a result, and collects the differences, so that
 * the caller can compare the rest of the link.
 *
 * @param kind Any kind if undefined
 * @param mayBeDown Whether the link can be down
 * @throws {CniError} 999 if the link does not exist or has a different kind
 */
export function compareLink(
  differences: Differences,
  rtnl: Rtnl,
  { name, mac }: Interface,
  { kind, mayBeDown = false }: {
    readonly kind?: string | undefined;
    readonly mayBeDown?: boolean;
  },
): Link {
  const link = rtnl.link.find(name);
  if (link === undefined) {
    throw checkFailure(`Interface "${name}" no longer exists`, {
      kind: "link",
      netns: rtnl.netns.path,
      link: name,
    });
  }
  if (kind !== undefined && link.kind !== kind) {
    throw checkFailure(`Interface "${name}" is not a ${kind}`);
  }
  const actual = link.mac?.toString() ?? "";
  if (mac !== undefined && mac.toLowerCase() !== actual) {
    const problem = `has MAC ${actual}, not ${mac}`;
    differences.add(linkDifference(rtnl, link, problem, { mac }));
  }
  if (!link.isUp && !mayBeDown) {
    differences.add(linkDifference(rtnl, link, "is down", { isUp: true }));
  }
  return link;
}

/**
 * Checks that two links are the ends of the same veth pair.
 *
 * @throws {CniError} 999 if not
 */
export function checkConnected(left: Link, right: Link): void {
  const areConnected = left.linkIndex === right.index &&
    right.linkIndex === left.index;
  if (areConnected) return;
  throw checkFailure(`"${left.name}" and "${right.name}" are not connected`);
}

/**
 * Checks that the host forwards packets of the addresses' families from a link.
 *
 * @throws {CniError} 999 if not
 */
export function checkForwarding(
  host: NetNs,
  addresses: readonly Cidr[],
  link: string,
): void {
  throwDifferences(
    listForwardingOff(host, addresses, link).map(({ family, key }) => ({
      msg: `IPv${family} forwarding is off` +
        (key === FORWARDING[family] ? "" : ` on "${link}"`),
      expected: { kind: "sysctl", netns: host.path, key, value: "1" },
    })),
  );
}

/**
 * Checks that a link has all of these addresses, with the same prefix lengths.
 *
 * @throws {CniError} 999 if any are missing or cannot be used
 */
export function checkAddresses(
  rtnl: Rtnl,
  link: Link,
  addresses: readonly Cidr[],
): void {
  const present = new Map(
    listAddresses(rtnl, link).map((one) => [String(one.address), one]),
  );
  throwDifferences(addresses.flatMap((address) => {
    const found = present.get(String(address));
    if (found === undefined) {
      return [{
        msg: `Interface "${link.name}" lacks address ${address}`,
        expected: {
          kind: "address",
          netns: rtnl.netns.path,
          link: link.name,
          address: `${address}`,
        },
      }];
    }
    return found.hasDadFailed
      ? [{ msg: `Address ${address} is in use by another host` }]
      : [];
  }));
}

/**
 * Checks that all of these routes go out through a link.
 *
 * @param table Where to search routes that name no table: "any" in the sandbox,
 * because chained plugins such as sbr move them, but "main" on the host
 * @throws {CniError} 999 if any are missing
 */
export function checkRoutes(
  rtnl: Rtnl,
  link: Link,
  routes: readonly Route[],
  table: "any" | "main",
): void {
  const missing = listMissingRoutes(rtnl, link, routes, table);
  throwDifferences(missing.map((route) => lackOfRoute(rtnl, link.name, route)));
}

/**
 * Lists the routes that do not leave through a link; `table` as in {@linkcode
 * checkRoutes}.
 */
export function listMissingRoutes(
  rtnl: Rtnl,
  link: Link,
  routes: readonly Route[],
  table: "any" | "main",
): Route[] {
  const present = withAction(
    `list the routes of "${link.name}"`,
    () =>
      rtnl.route.list({
        ifindex: link.index,
        ...table === "any" ? { table } : {},
      }),
  );
  const byDestination = Map.groupBy(
    present,
    ({ destination }) => String(destination),
  );
  return routes.filter((route) =>
    !byDestination.get(String(route.destination))
      ?.some((other) => isSameRoute(route, other))
  );
}

/** Describes a route that a link lacks. */
export function lackOfRoute(
  { netns }: Pick<Rtnl, "netns">,
  link: string,
  { destination, gateway }: Pick<Route, "destination" | "gateway">,
): Difference {
  const via = gateway === undefined ? "" : ` via ${gateway}`;
  return {
    msg: `Interface "${link}" lacks route ${destination}${via}`,
    expected: {
      kind: "route",
      netns: netns.path,
      link,
      destination: `${destination}`,
      gateway: gateway && `${gateway}`,
    },
  };
}

function isSameRoute(wanted: Route, actual: Route): boolean {
  return wanted.destination.equals(actual.destination) &&
    (wanted.gateway === undefined
      ? actual.gateway === undefined
      : actual.gateway?.equals(wanted.gateway) === true) &&
    (wanted.preferredSource === undefined ||
      actual.isSourceUntold === true ||
      actual.preferredSource?.equals(wanted.preferredSource) === true) &&
    (wanted.table === undefined || wanted.table === actual.table) &&
    (wanted.priority === undefined || wanted.priority === actual.priority);
}

/**
 * Checks an interface of the sandbox that has neighbours on its link: its addresses,
 * the kernel's routes to the subnets, without which no neighbour is reachable, and
 * the result's routes. The IPAM plugin checks addresses and routes from the network.
 *
 * @param differences Collects deviations from ADD's result
 */
export async function checkConfigured(
  differences: Differences,
  sandbox: Rtnl,
  link: Link,
  whole: Result,
): Promise<void> {
  const result = withoutLearned(whole);
  const addresses = result.ips.map(({ address }) => address);
  const subnets = addresses
    .filter(({ ip, prefixLength }) => prefixLength < ip.bitLength)
    .map((address) => ({ destination: address.masked() }));
  const routes = [
    ...subnets,
    ...result.routes.map((route) => kernelRouteOf(route, result.ips)),
  ];
  await differences.collect(() => checkAddresses(sandbox, link, addresses));
  await differences.collect(() => checkRoutes(sandbox, link, routes, "any"));
}

/**
 * Reports whether a link is on a master. A macvlan on a macvlan is on the master of
 * that macvlan, and an ipvlan on an ipvlan likewise.
 *
 * Source: drivers/net/macvlan.c `macvlan_common_newlink`,
 * drivers/net/ipvlan/ipvlan_main.c `ipvlan_link_new`.
 */
export function isOn(link: Link, master: Link): boolean {
  return link.linkIndex === master.index ||
    link.kind === master.kind && link.linkIndex === master.linkIndex;
}
