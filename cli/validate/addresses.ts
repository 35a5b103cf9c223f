/**
 * Problems with ranges, addresses, gateways, routes and name servers.
 *
 * @module
 */

import { findUnfitValue, RouteScope } from "../../cni/result/route.ts";
import type {
  GatewayLink,
  GivenRange,
} from "../../metadata/plugin_metadata.ts";
import {
  type ConfigPath,
  errorAt,
  listOf,
  type Problem,
  readCidr,
  readIp,
  warningAt,
} from "../../metadata/problem.ts";
import {
  type JsonObject,
  type JsonValue,
  objectOf,
} from "../../base/json/json.ts";
import type { Cidr } from "../../net/cidr.ts";
import type { NetworkConfList } from "../../libcni/conf.ts";
import { isAtLeast, isSpecVersion } from "../../cni/version.ts";
import type { CheckedPlugin } from "./keys.ts";
import {
  gatewayAddressesOf,
  gatewayFor,
  isInTheWay,
} from "../../plugins/bridge/inspect.ts";
import { ipamOf } from "../../cni/config/ipam.ts";

/** Lists addresses and routes that make no sense for any plugin. */
export function checkAddresses(
  checked: CheckedPlugin,
  { cniVersion }: Pick<NetworkConfList, "cniVersion">,
): Problem[] {
  const { folded, place, conf, ipamMetadata } = checked;
  const ipam = ipamOf(folded);
  const at = [...place, "ipam"];
  const subnets = (ipamMetadata?.subnets?.(ipam) ?? []).flat()
    .map(({ subnet }) => subnet);
  // A runtime might pass addresses of other subnets.
  const isComplete = Object.values(conf.capabilities).every((is) => !is);
  return [
    ...checkRoutes(
      ipam["routes"],
      [...at, "routes"],
      isComplete ? subnets : [],
    ),
    ...checkFamilies(checked, cniVersion),
    ...checkNameservers([...place, "dns"], folded["dns"]),
    ...checkNameservers([...at, "dns"], ipam["dns"]),
  ];
}

/** Lists the ranges of the IPAM plugin that are valid. */
export function listRanges(
  { folded, ipamMetadata }: Pick<CheckedPlugin, "folded" | "ipamMetadata">,
): GivenRange[] {
  const ipam = ipamOf(folded);
  return (ipamMetadata?.ranges?.(ipam) ?? [])
    .filter(({ subnet }) => !subnet.hasHostBits)
    .map((range) => ({ ...range, place: ["ipam", ...range.place] }));
}

/** The first version with any number of addresses in a result. */
const LISTS_SINCE = "0.3.0";

/** Finds addresses that a result of an old version has no room for. */
function checkFamilies(
  { folded, place, conf, ipamMetadata }: CheckedPlugin,
  cniVersion: string,
): Problem[] {
  const isOld = (cniVersion === "" || isSpecVersion(cniVersion)) &&
    !isAtLeast(cniVersion, LISTS_SINCE);
  if (!isOld) return [];
  const sets = ipamMetadata?.subnets?.(ipamOf(folded)) ?? [];
  const firsts = sets.flatMap(([first]) => first ?? []);
  // A runtime might request different addresses instead.
  const problemAt = conf.capabilities["ips"] ? warningAt : errorAt;
  return firsts.filter(({ subnet: { family } }, index) =>
    firsts.findIndex((other) => other.subnet.family === family) < index
  ).map(({ place: at, subnet: { family } }) =>
    problemAt(
      [...place, "ipam", ...at],
      `a second IPv${family} address: before version ${LISTS_SINCE}, results ` +
        "have only one of each family",
    )
  );
}

/** @param subnets The subnets of the container; empty if unknown */
function checkRoutes(
  routes: JsonValue | undefined,
  place: ConfigPath,
  subnets: readonly Cidr[],
): Problem[] {
  return listOf(routes).flatMap((route, index, all) => {
    const at = [...place, index];
    const dst = readCidr(route["dst"]);
    if (dst === undefined) return [];
    const isSame = (other: JsonObject): boolean =>
      readCidr(other["dst"])?.equals(dst) === true &&
      ["table", "priority"].every((key) => other[key] === route[key]);
    const repeated = all.findIndex(isSame) === index ? [] : [
      warningAt(
        at,
        `a second route to ${dst}; only one of them takes effect`,
        "second-route",
      ),
    ];
    const bits = dst.hasHostBits
      ? [
        warningAt(
          [...at, "dst"],
          `${dst} has host bits set: ${dst.masked()}`,
          "host-bits",
        ),
      ]
      : [];
    return [...repeated, ...bits, ...checkGateway(route, at, subnets)];
  });
}

function checkGateway(
  route: JsonObject,
  at: ConfigPath,
  subnets: readonly Cidr[],
): Problem[] {
  const dst = readCidr(route["dst"]), gw = readIp(route["gw"]);
  if (dst === undefined) return [];
  if (gw !== undefined && gw.family !== dst.family) {
    const problem = `${gw} is not an IPv${dst.family} address, as ${dst} is`;
    return [errorAt([...at, "gw"], problem)];
  }
  const unfit = findUnfitValue({ ...listNumbers(route), dst, gw });
  if (unfit !== undefined) {
    const [key = "", ...problem] = unfit.split(" ");
    return [errorAt([...at, key], problem.join(" "))];
  }
  if (subnets.length === 0) return [];
  const silent = subnets.find(({ broadcast }) =>
    gw !== undefined && broadcast?.equals(gw)
  );
  if (silent !== undefined) {
    const problem = `the broadcast address of ${silent} cannot be a gateway`;
    return [errorAt([...at, "gw"], problem)];
  }
  if (!subnets.some(({ family }) => family === dst.family)) {
    const problem = `the container has no IPv${dst.family} address`;
    return [warningAt([...at, "dst"], problem, "route-family")];
  }
  const isReachable = gw === undefined || gw.isLinkLocal ||
    subnets.some((subnet) => subnet.contains(gw));
  return isReachable ? [] : [
    warningAt(
      [...at, "gw"],
      `${gw} is in none of the container's subnets: ${subnets.join(", ")}; ` +
        "containers reach it on the link",
      "gateway-off-subnet",
    ),
  ];
}

/** Lists the numbers of a route, such as its MTU. */
function listNumbers(route: JsonObject): Record<string, number> {
  return Object.fromEntries(
    Object.entries(route).filter((entry): entry is [string, number] =>
      typeof entry[1] === "number"
    ),
  );
}

function checkNameservers(
  place: ConfigPath,
  dns: JsonValue | undefined,
): Problem[] {
  const { nameservers } = objectOf(dns);
  return (Array.isArray(nameservers) ? nameservers : [])
    .flatMap((server, index) => {
      if (typeof server !== "string" || readIp(server)) return [];
      const path = [...place, "nameservers", index];
      return [
        warningAt(path, `"${server}" is not an IP address`, "name-server"),
      ];
    });
}

/** A gateway that ADD adds to a link of the host. */
export interface NetworkGateway {
  /** Where its subnet is in the configuration. */
  readonly place: ConfigPath;
  readonly link: GatewayLink;
  readonly address: Cidr;
}

/**
 * Lists the gateways that the plugin adds to a link of the host, as sets: ADD
 * adds one of each set.
 */
export function listGateways(
  { folded, place, metadata, ipamMetadata }: CheckedPlugin,
): NetworkGateway[][] {
  const link = metadata?.network?.gatewayLink?.(folded);
  if (link === undefined) return [];
  const sets = ipamMetadata?.subnets?.(ipamOf(folded)) ?? [];
  return sets.map((set) =>
    set.flatMap(({ place: at, subnet, gateway = gatewayFor(subnet) }) =>
      gateway.family !== subnet.family
        ? []
        : gatewayAddressesOf([{ address: subnet, gateway }]).map((address) => ({
          place: [...place, "ipam", ...at],
          link,
          address,
        }))
    )
  );
}

/** Lists gateways that ADD cannot use. */
export function checkGateways(checked: CheckedPlugin): Problem[] {
  return [
    ...listGateways(checked).flatMap(checkSet),
    ...checkBroadcast(checked),
  ];
}

/** Finds broadcast addresses that a route would use as its gateway. */
function checkBroadcast(
  { folded, place, metadata, ipamMetadata }: CheckedPlugin,
): Problem[] {
  const ipam = ipamOf(folded);
  const sets = ipamMetadata?.subnets?.(ipam) ?? [];
  const isUsed = metadata?.network?.routesByGateway?.(folded) === true ||
    listOf(ipam["routes"]).some(({ dst, gw, scope }) =>
      readCidr(dst)?.family === 4 && !gw && scope !== RouteScope.link
    );
  if (!isUsed) return [];
  return sets.flat().filter(({ subnet, gateway }) =>
    gateway !== undefined && subnet.broadcast?.equals(gateway)
  ).map(({ place: at, gateway }) =>
    errorAt(
      [...place, "ipam", ...at],
      `ADD fails: a route has the gateway ${gateway}, the broadcast address`,
    )
  );
}

/** Finds a gateway that conflicts with the first gateway of its set. */
function checkSet([first, ...others]: readonly NetworkGateway[]): Problem[] {
  if (first === undefined) return [];
  return others.filter(({ address }) =>
    !address.equals(first.address) && isInTheWay(first.address, address)
  ).map(({ place, link }) =>
    warningAt(
      place,
      describeClash(link, `${first.address} of the set's first range`),
      "gateway-clash",
    )
  );
}

/** Describes what ADD does if a link has the gateway of other networks. */
export function describeClash(link: GatewayLink, other: string): string {
  return link.replaces
    ? `ADD deletes the gateway ${other} from "${link.name}"`
    : `ADD fails while "${link.name}" has the gateway ${other}`;
}
