/**
 * The network of a device on the host: addresses, routes and rules.
 * `useInterfaceNetwork` moves it into the container with the device, and back.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import type { Log } from "../../base/log/log.ts";
import type { Rollback } from "../../base/rollback.ts";
import type { Result } from "../../cni/result/result.ts";
import { isErrno } from "../../ffi/errno.ts";
import { type AddressLifetime, FOREVER } from "../../ffi/rtnl/address.ts";
import { Table } from "../../ffi/rtnl/constants.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { RouteEntry } from "../../ffi/rtnl/route_entry.ts";
import { type NewRule, RuleRequests } from "../../ffi/rtnl/rule.ts";
import { Cidr } from "../../net/cidr.ts";
import { listAddresses, withAction } from "../parts/link/configure_link.ts";
import type { DeviceRecord } from "./record.ts";

/** The network of a device, as in its record. */
export type HostNetwork = NonNullable<DeviceRecord["hostNetwork"]>;

/**
 * Reads the network of a device: its IPv4 addresses, including addresses that a DHCP
 * client has leased, with their lifetimes; its permanent IPv6 addresses; its routes
 * in all tables that neither the kernel nor a router has added; and the rules that
 * look up packets from its addresses in the tables of its routes.
 *
 * Source: containernetworking/plugins
 * plugins/main/host-device/host-network-state.go `captureHostNetworkState`.
 */
export function readHostNetwork(host: Rtnl, link: Link): HostNetwork {
  const addresses = listAddresses(host, link).filter((one) =>
    !one.address.ip.isLinkLocal &&
    (one.address.family === 4 || one.isPermanent)
  );
  const routes = host.route.listEntries()
    .flatMap((entry) => entry.over(link.index) ?? [])
    .filter((entry) =>
      entry.isUnicast && entry.origin === "others" &&
      entry.table !== Table.Local &&
      !(entry.family === 6 && entry.destination.ip.isLinkLocal)
    );
  const rules = new RuleRequests(host.socket).list().filter((rule) =>
    rule.isBySource && rule.source.prefixLength > 0 &&
    routes.some(({ table }) => table === rule.table) &&
    addresses.some(({ address }) => rule.source.contains(address.ip))
  );
  return {
    isUp: link.isUp,
    readAtMs: Date.now(),
    addresses: addresses.map(({ address, noPrefixRoute, lifetime }) => ({
      address: `${address}`,
      noPrefixRoute,
      ...lifetime && { lifetime },
    })),
    routes: routes.map((entry) => entry.toHex()),
    rules: rules.map(({ source, table, priority }) => ({
      source: `${source}`,
      table,
      priority,
    })),
  };
}

/** Returns a lease that also contains the network's addresses, for the interface. */
export function withAddresses(
  lease: Result,
  { addresses }: HostNetwork,
): Result {
  const ips = addresses.map(({ address }) => ({
    address: Cidr.parse(address),
  }));
  return { ...lease, ips: [...lease.ips, ...ips] };
}

/** Returns a result with the routes of the network. */
export function withRoutes(result: Result, network: HostNetwork): Result {
  const entries = network.routes.map((hex) => RouteEntry.fromHex(hex));
  const routes = entries.map((entry) => ({
    dst: entry.destination,
    gw: entry.nextHops[0]?.gateway,
    priority: entry.priority || undefined,
    table: entry.table,
    scope: entry.scope || undefined,
  }));
  return { ...result, routes: [...result.routes, ...routes] };
}

/**
 * Adds the routes and the rules to the container, whose interface has the
 * addresses and is up.
 *
 * @throws {Error} If the kernel refuses; names the route or rule
 */
export function addRoutesAndRules(
  sandbox: Rtnl,
  { index, name }: Link,
  network: HostNetwork,
  rollback: Rollback,
): void {
  for (const entry of entriesOf(network)) {
    withAction(
      `add route ${entry.destination} to "${name}"`,
      () => unlessThere(() => sandbox.route.append(entry.onto(index))),
    );
  }
  rollback.onFailure("delete the rules of the host's network", () => {
    deleteRules(sandbox, network);
  });
  const rules = new RuleRequests(sandbox.socket);
  for (const rule of rulesOf(network)) {
    withAction(
      `add rule from ${rule.source} lookup ${rule.table}`,
      () => unlessThere(() => rules.add(rule)),
    );
  }
}

/** Deletes the rules that exist from the container. */
export function deleteRules(sandbox: Rtnl, network: HostNetwork): void {
  const rules = new RuleRequests(sandbox.socket);
  for (const rule of rulesOf(network)) {
    try {
      rules.del(rule);
    } catch (error) {
      if (!isErrno(error, "ENOENT")) throw error;
    }
  }
}

/** Lists the rules that the container lacks. */
export function findMissingRules(
  sandbox: Rtnl,
  network: HostNetwork,
): NewRule[] {
  const present = new RuleRequests(sandbox.socket).list();
  return rulesOf(network).filter((rule) =>
    !present.some((one) =>
      one.table === rule.table && one.priority === rule.priority &&
      one.source.equals(rule.source)
    )
  );
}

/**
 * Restores addresses, routes and the up state on the host, as far as the host
 * permits. Addresses whose lease has expired in the meantime might belong to a
 * different host, and are not restored.
 */
export function restoreHostNetwork(
  host: Rtnl,
  { index: ifindex }: Link,
  network: HostNetwork,
  log: Log,
): void {
  const attempt = (what: string, work: () => void): void => {
    try {
      unlessThere(work);
    } catch (error) {
      log.warn(`Cannot restore ${what}`, { problem: describeError(error) });
    }
  };
  const { addresses, readAtMs = Date.now() } = network;
  const elapsed = Math.max(0, Math.ceil((Date.now() - readAtMs) / 1000));
  for (const { address: text, noPrefixRoute, lifetime: before } of addresses) {
    const address = Cidr.parse(text);
    const lifetime = before && remainderOf(before, elapsed);
    if (lifetime?.valid === 0) {
      log.warn(`Not restoring address ${address}`, {
        problem: "its lease has expired",
      });
      continue;
    }
    attempt(
      `address ${address}`,
      () => host.address.add({ ifindex, address, noPrefixRoute, lifetime }),
    );
  }
  if (!network.isUp) return;
  attempt("the up state", () => host.link.set(ifindex, { isUp: true }));
  for (const entry of entriesOf(network)) {
    attempt(
      `route ${entry.destination}`,
      () => host.route.append(entry.onto(ifindex)),
    );
  }
}

function remainderOf(
  { preferred, valid }: AddressLifetime,
  elapsed: number,
): AddressLifetime {
  const subtract = (seconds: number): number =>
    seconds === FOREVER ? FOREVER : Math.max(0, seconds - elapsed);
  return { preferred: subtract(preferred), valid: subtract(valid) };
}

/** Reads the routes, starting with routes to gateways. */
function entriesOf({ routes }: HostNetwork): RouteEntry[] {
  const entries = routes.map((hex) => RouteEntry.fromHex(hex));
  return [
    ...entries.filter(({ hasGateway }) => !hasGateway),
    ...entries.filter(({ hasGateway }) => hasGateway),
  ];
}

function rulesOf({ rules }: HostNetwork): NewRule[] {
  return rules.map(({ source, ...rule }) => ({
    ...rule,
    source: Cidr.parse(source),
  }));
}

function unlessThere(work: () => void): void {
  try {
    work();
  } catch (error) {
    if (!isErrno(error, "EEXIST")) throw error;
  }
}
