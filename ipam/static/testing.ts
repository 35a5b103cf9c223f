/**
 * Runs static in this process; it needs no namespace, no file and no other
 * plugin.
 *
 * @module
 */

import type { Environment } from "../../base/process/environment.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { isAtLeast } from "../../cni/version.ts";
import { staticIpam } from "./plugin.ts";
import { Cidr } from "../../net/cidr.ts";
import { type Outcome, run } from "../../tests/_harness/recorder.ts";

/** Runs static once. */
export function runStatic(
  command: string,
  config: JsonObject,
  env: Environment = {},
): Promise<Outcome> {
  const variables = {
    CNI_COMMAND: command,
    CNI_CONTAINERID: "dummy",
    CNI_NETNS: "/some/where",
    CNI_IFNAME: "eth0",
    CNI_PATH: "/some/bin",
    ...env,
  };
  return run(staticIpam, variables, config);
}

/** Builds a configuration of a network with static addresses. */
export function staticConfig(
  ipam: JsonObject | undefined,
  others: JsonObject = {},
): JsonObject {
  return {
    cniVersion: "1.1.0",
    name: "mynet",
    type: "ipvlan",
    master: "foo0",
    ...ipam && { ipam: { type: "static", ...ipam } },
    ...others,
  };
}

/** An address in a result of 1.0.0. */
type IpJson = { address: string; gateway?: string };
/** A route in a result. */
type RouteJson = { dst: string; gw?: string };

/** Formats a result for a version; before 0.3.0 with a single address of each family. */
export function resultOf(
  cniVersion: string,
  ips: IpJson[],
  { routes = [], dns = {} }: { routes?: RouteJson[]; dns?: JsonObject } = {},
): JsonObject {
  const familyOf = (cidr: string): number => Cidr.parse(cidr).family;
  const listed = routes.length === 0 ? {} : { routes };
  if (isAtLeast(cniVersion, "1.0.0")) {
    const known = Object.keys(dns).length === 0 ? {} : { dns };
    return { cniVersion, ips, ...listed, ...known };
  }
  if (isAtLeast(cniVersion, "0.3.0")) {
    const versioned = ips.map((ip) => ({
      version: `${familyOf(ip.address)}`,
      ...ip,
    }));
    return { cniVersion, ips: versioned, ...listed, dns };
  }
  const families = ips.map(({ address: ip, gateway }) => {
    const own = routes.filter(({ dst }) => familyOf(dst) === familyOf(ip));
    return [`ip${familyOf(ip)}`, {
      ip,
      ...gateway === undefined ? {} : { gateway },
      ...own.length === 0 ? {} : { routes: own },
    }];
  });
  return { cniVersion, ...Object.fromEntries(families), dns };
}
