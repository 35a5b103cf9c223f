/**
 * CHECK of both ends of the veth pair.
 *
 * @module
 */

import type { Call } from "../../cni/plugin.ts";
import type { Result } from "../../cni/result/result.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Cidr } from "../../net/cidr.ts";
import {
  checkAddresses,
  checkConnected,
  checkFailure,
  checkForwarding,
  checkRoutes,
  compareLink,
  sandboxInterfaceOf,
} from "../parts/link/check_link.ts";
import { Differences } from "../../cni/call/differences.ts";
import { checkMasqueraded } from "../parts/firewall/masquerade/steps.ts";
import { addressesOf, ownPartOf } from "../parts/sandbox/prev_result.ts";
import {
  containerRoute,
  gatewayRoutes,
  gatewaysOf,
  routedIpsOf,
} from "./routing.ts";
import type { PtpConfig } from "./schema.ts";

/** Both ends of the pair. */
const VETH = { kind: "veth" };

/** The data to compare. */
export interface Checked {
  /** The host's namespace. */
  readonly host: Rtnl;
  /** The container's namespace. */
  readonly sandbox: Rtnl;
  /** The CHECK. */
  readonly call: Call<PtpConfig>;
  readonly prevResult: Result;
}

/**
 * Checks the leases, both ends of the veth pair and the masquerade.
 *
 * @throws {CniError} With all differences from ADD's result
 */
export async function checkAttachment(checked: Checked): Promise<void> {
  const { call, prevResult } = checked;
  const differences = new Differences();
  await differences.collect(() => call.ipam.check());
  await checkEnds(differences, checked);
  const addresses = addressesOf(prevResult, call.args);
  await differences.collect(() => checkMasqueraded(call, addresses));
  differences.throwAny();
}

async function checkEnds(
  differences: Differences,
  checked: Checked,
): Promise<void> {
  const container = await differences.collect(() =>
    findContainerEnd(differences, checked)
  );
  if (container !== undefined) {
    await checkContainerEnd(differences, checked, container);
  }
  const host = await differences.collect(() =>
    findHostEnd(differences, checked)
  );
  if (host !== undefined) await checkHostEnd(differences, checked, host);
  if (host === undefined || container === undefined) return;
  await differences.collect(() => checkConnected(host, container));
}

function findContainerEnd(
  differences: Differences,
  { sandbox, call, prevResult }: Checked,
): Link {
  const expected = sandboxInterfaceOf(prevResult, call.args);
  return compareLink(differences, sandbox, expected, VETH);
}

function findHostEnd(
  differences: Differences,
  { host, prevResult }: Checked,
): Link {
  const expected = prevResult.interfaces.find(({ sandbox }) => !sandbox);
  if (expected !== undefined) {
    return compareLink(differences, host, expected, VETH);
  }
  throw checkFailure("prevResult has no interface of the host");
}

/**
 * Checks the addresses, the routes to and through the gateways, and IPAM's
 * routes.
 */
async function checkContainerEnd(
  differences: Differences,
  { sandbox, call, prevResult }: Checked,
  link: Link,
): Promise<void> {
  const own = ownPartOf(prevResult, call.args);
  const ips = routedIpsOf(own);
  const addresses = ips.map(({ address }) => address);
  await differences.collect(() => checkAddresses(sandbox, link, addresses));
  const routes = [
    ...gatewayRoutes(ips),
    ...own.routes.map((route) => containerRoute(route, ips)),
  ];
  await differences.collect(() => checkRoutes(sandbox, link, routes, "any"));
}

/** Checks the gateways' addresses, the routes to the container, and forwarding. */
async function checkHostEnd(
  differences: Differences,
  { host, call, prevResult }: Checked,
  link: Link,
): Promise<void> {
  const ips = routedIpsOf(ownPartOf(prevResult, call.args));
  const gateways = gatewaysOf(ips).map(Cidr.host);
  const destinations = ips.map(({ address }) => Cidr.host(address.ip));
  const routes = destinations.map((destination) => ({ destination }));
  await differences.collect(() => checkAddresses(host, link, gateways));
  await differences.collect(() => checkRoutes(host, link, routes, "main"));
  await differences.collect(() =>
    checkForwarding(host.netns, destinations, link.name)
  );
}
