/**
 * The result of an IPv4 lease.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { emptyDns, type Result, type Route } from "../../cni/result/result.ts";
import { Options } from "../../net/dhcp/options.ts";
import { Cidr } from "../../net/cidr.ts";
import { isDomainName } from "../../net/domain_names.ts";
import { Ip } from "../../net/ip.ts";
import type { Lease4 } from "./lease.ts";

/**
 * Builds the result of a lease.
 *
 * @throws {CniError} 999 if the server sent no subnet mask
 */
export function resultOf4({ address, ack, priority }: Lease4): Result {
  const options = Options.fromJSON(ack);
  const prefixLength = options.get("subnetMask");
  if (prefixLength === undefined) {
    throw new CniError(
      ErrorCode.Internal,
      "DHCP option Subnet Mask not found in DHCPACK",
    );
  }
  const [gateway] = options.get("routers") ?? [];
  const nameservers = options.get("nameServers") ?? [];
  return {
    interfaces: [],
    ips: [{ address: new Cidr(Ip.parse(address), prefixLength), gateway }],
    routes: routesOf(options)
      .map((route) => priority === 0 ? route : { ...route, priority }),
    dns: {
      ...emptyDns(),
      nameservers: nameservers.map(String),
      domain: [options.get("domainName") ?? ""].find(isDomainName) ?? "",
      search: (options.get("domainSearch") ?? []).filter(isDomainName),
    },
  };
}

const UNSPECIFIED = Ip.parse("0.0.0.0"), SCOPE_LINK = 253;

/** Classless routes replace all other routes. Source: RFC 3442. */
function routesOf(options: Options): Route[] {
  const classless = options.get("classlessRoutes") ?? [];
  if (classless.length > 0) {
    return classless.map(({ dst, router: gw }): Route =>
      gw.equals(UNSPECIFIED) ? { dst, gw, scope: SCOPE_LINK } : { dst, gw }
    );
  }
  const [gw] = options.get("routers") ?? [];
  const others = (options.get("staticRoutes") ?? [])
    .map(({ dst, router }): Route => ({ dst, gw: router }));
  if (gw === undefined) return others;
  return [...others, { dst: new Cidr(UNSPECIFIED, 0), gw }];
}
