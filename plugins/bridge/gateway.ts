/**
 * The gateway's addresses, and the link of the host that gets them.
 *
 * @module
 */

import { CniError, invalidConfig } from "../../base/error.ts";
import type { Call } from "../../cni/plugin.ts";
import type { IpConfig, Result, Route } from "../../cni/result/result.ts";
import { isLearned } from "../../cni/result/learned.ts";
import { isErrno } from "../../ffi/errno.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Scope } from "../../ffi/rtnl/constants.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import { findNsid } from "../../ffi/rtnl/nsid.ts";
import type { Route as KernelRoute } from "../../ffi/rtnl/route.ts";
import { Cidr } from "../../net/cidr.ts";
import type { IpFamily } from "../../net/ip.ts";
import { ignoreNewRouters } from "../parts/address/ip_forward.ts";
import { attachmentOf } from "../parts/owner/attachment.ts";
import {
  hasAddress,
  listAddresses,
  withAction,
} from "../parts/link/configure_link.ts";
import { findSandbox } from "../parts/sandbox/sandbox.ts";
import { findOwnHostEnd } from "../parts/link/veth.ts";
import { gatewayFor, isInTheWay } from "./inspect.ts";
import type { BridgeConfig } from "./schema.ts";
import type { BridgeSettings } from "./settings.ts";

const DEFAULT_ROUTES: Readonly<Record<IpFamily, string>> = {
  4: "0.0.0.0/0",
  6: "::/0",
};

type GatewaySettings = Pick<BridgeSettings, "isGateway" | "isDefaultGateway">;

/**
 * Completes the IPAM plugin's result: a gateway bridge gets an address for each
 * of the container's, and as the default gateway it becomes the container's
 * default route of each family.
 *
 * @throws {CniError} 7 if the IPAM plugin returned no address, a gateway that
 *   the bridge cannot have, or an address of a network that has a router
 */
export function routedThroughBridge(
  { ips, routes }: Pick<Result, "ips" | "routes">,
  { isGateway, isDefaultGateway }: GatewaySettings,
): Pick<Result, "ips" | "routes"> {
  if (ips.length === 0) {
    throw invalidConfig("IPAM plugin returned missing IP config");
  }
  const completed = isGateway ? ips.map(withGateway) : ips;
  return {
    ips: completed,
    routes: isDefaultGateway
      ? [...routes, ...missingDefaultRoutes(completed, routes)]
      : routes,
  };
}

/** Completes an address with the bridge's as its gateway. */
function withGateway(ip: IpConfig): IpConfig {
  const { address, gateway = gatewayFor(address) } = ip;
  if (isLearned(ip)) {
    throw invalidConfig(
      `Cannot make the bridge the gateway of ${address}: the network has a router`,
    );
  }
  if (gateway.family !== address.family || gateway.equals(address.ip)) {
    throw invalidConfig(
      `IPAM plugin returned unusable gateway ${gateway} for ${address}`,
    );
  }
  return { ...ip, gateway };
}

/**
 * Lists the missing default routes. A route without a gateway does not count as
 * one: the plugin adds it unchanged.
 */
function missingDefaultRoutes(
  ips: readonly IpConfig[],
  routes: readonly Route[],
): Route[] {
  return ([4, 6] as const).flatMap((family) => {
    const gw = ips.find(({ gateway }) => gateway?.family === family)?.gateway;
    const dst = Cidr.parse(DEFAULT_ROUTES[family]);
    const isThere = routes.some((route) =>
      route.gw !== undefined && route.dst.masked().equals(dst)
    );
    return gw === undefined || isThere ? [] : [{ dst, gw }];
  });
}

/**
 * Ensures that a link has the gateways' addresses. A link has one IPv4 subnet
 * and any number of disjoint IPv6 subnets; only the subnets of a single
 * attachment may overlap. A link that becomes a gateway ignores routers.
 *
 * Source: containernetworking/plugins plugins/main/bridge/bridge.go
 * `ensureAddr`.
 *
 * @param force Whether to delete conflicting addresses
 * @throws {CniError} 7 if another address is in the way
 */
export function ensureGatewayAddresses(
  host: Rtnl,
  link: Link,
  { gateways, force }: { gateways: readonly Cidr[]; force: boolean },
): void {
  const isIn = (list: readonly Cidr[], one: Cidr): boolean =>
    list.some((other) => other.equals(one));
  const present = listAddresses(host, link)
    .map(({ address }) => address);
  const missing = gateways.filter((gateway) => !isIn(present, gateway));
  const others = present.filter((address) => !isIn(gateways, address));
  const inTheWay = (gateway: Cidr): Cidr[] =>
    others.filter((one) => isInTheWay(one, gateway));
  const refused = force
    ? undefined
    : missing.find((gateway) => inTheWay(gateway).length > 0);
  if (refused !== undefined) throw hasOtherAddress(link, refused);
  if (missing.length > 0) ignoreNewRouters(host, link);
  for (const gateway of missing) {
    for (const other of inTheWay(gateway)) deleteAddress(host, link, other);
    addGatewayAddress(host, link, gateway);
  }
}

/**
 * Lists the host's routes to containers whose gateway is outside their subnet:
 * the kernel adds none, as no address of the bridge is in the subnet.
 */
export function routesToContainers(ips: readonly IpConfig[]): KernelRoute[] {
  return ips.flatMap(({ address, gateway }) =>
    gateway === undefined || address.contains(gateway)
      ? []
      : [{ destination: address.masked(), scope: Scope.Link }]
  );
}

/**
 * Ensures that the host has routes to containers.
 *
 * @throws {Error} If the kernel refuses, as it does if another link has the
 *   subnet
 */
export function ensureRoutes(
  host: Rtnl,
  { index: ifindex, name }: Link,
  routes: readonly KernelRoute[],
): void {
  for (const route of routes) {
    withAction(`add route ${route.destination} to "${name}"`, () => {
      try {
        host.route.add({ ...route, ifindex });
      } catch (error) {
        const isThere = isErrno(error, "EEXIST") &&
          host.route.list({ ifindex }).some(({ destination }) =>
            destination.equals(route.destination)
          );
        if (!isThere) throw error;
      }
    });
  }
}

/**
 * Deletes the routes to a container's own addresses from links of the host.
 * Routes to subnets are kept, because other containers need them, and so is the
 * route to an address that already belongs to another container: a runtime may
 * repeat the DEL of a container whose address was given to the next one.
 *
 * @param names The links' names
 * @throws {Error} If the kernel refuses, or containers start and stop too fast to
 *   determine which of them has an address
 */
export function deleteOwnRoutes(
  call: Call<BridgeConfig>,
  names: readonly string[],
  ips: readonly IpConfig[],
): void {
  const routes = routesToContainers(ips).filter(({ destination }) =>
    destination.equals(Cidr.host(destination.ip))
  );
  if (routes.length === 0) return;
  using host = Rtnl.open(call.hostNetns);
  for (const link of names.flatMap((name) => host.link.find(name) ?? [])) {
    const { index: ifindex, name } = link;
    const others = listOtherContainers(host, call, link);
    for (const route of routes) {
      const { ip } = route.destination;
      if (others.some((nsid) => hasAddress(host, { nsid }, ip))) continue;
      withAction(`delete route ${route.destination} of "${name}"`, () => {
        try {
          host.route.del({ ...route, ifindex });
        } catch (error) {
          if (!isErrno(error, "ESRCH", "ENODEV")) throw error;
        }
      });
    }
  }
}

/**
 * Lists the namespaces of other containers on a bridge, by the numbers that the
 * host has for them.
 *
 * @param link The bridge, or its interface of a VLAN
 */
function listOtherContainers(
  host: Rtnl,
  call: Call<BridgeConfig>,
  { index, linkIndex }: Link,
): number[] {
  using sandbox = findSandbox(call);
  const own = findOwnHostEnd(host, attachmentOf(call))?.linkNsid ??
    (sandbox && findNsid(host, sandbox.netns));
  const ids = host.link.list()
    .filter(({ masterIndex = 0 }) => [index, linkIndex].includes(masterIndex))
    .flatMap(({ linkNsid = -1 }) => linkNsid);
  return [...new Set(ids)].filter((id) => id >= 0 && id !== own);
}

function hasOtherAddress({ name }: Link, gateway: Cidr): CniError {
  return invalidConfig(
    `"${name}" already has an IP address different from ${gateway}`,
  );
}

function deleteAddress(host: Rtnl, { index, name }: Link, address: Cidr): void {
  withAction(`delete address ${address} of "${name}"`, () => {
    try {
      host.address.del(index, address);
    } catch (error) {
      // Already deleted with another one of its subnet, or by another
      // attachment.
      if (!isErrno(error, "EADDRNOTAVAIL")) throw error;
    }
  });
}

function addGatewayAddress(
  host: Rtnl,
  { index, name, mac }: Link,
  address: Cidr,
): void {
  withAction(`add address ${address} to "${name}"`, () => {
    try {
      host.address.add({ ifindex: index, address });
    } catch (error) {
      // Another attachment was faster.
      if (!isErrno(error, "EEXIST")) throw error;
    }
    // A MAC that was set explicitly stays, whichever ports come and go.
    host.link.set(index, { mac });
  });
}
