/**
 * Problems with ranges, addresses, routes and name servers.
 *
 * @module
 */

import { type JsonObject, type JsonValue, objectOf } from "../../cni/json.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip, unlessNoAddress } from "../../net/ip.ts";
import type { CheckedPlugin } from "./keys.ts";
import { errorAt, type Place, type Problem, warningAt } from "./problem.ts";

/** A range of addresses that host-local gives to containers. */
export interface GivenRange {
  readonly place: Place;
  readonly subnet: Cidr;
  readonly start: Ip;
  readonly end: Ip;
}

/** Lists addresses and routes that make no sense for any plugin. */
export function checkAddresses(
  { folded, place, conf }: CheckedPlugin,
): Problem[] {
  const ipam = objectOf(folded["ipam"]);
  const at = [...place, "ipam"];
  const isHostLocal = ipam["type"] === "host-local";
  const ranges = isHostLocal ? listGivenRanges(ipam) : [];
  const subnets = [
    ...ranges.map(({ range }) => readCidr(range["subnet"])),
    ...listOf(ipam["addresses"]).map(({ address }) => readCidr(address)),
  ].filter((subnet) => subnet !== undefined);
  // A runtime may pass addresses of other subnets.
  const isComplete = Object.values(conf.capabilities).every((is) => !is);
  return [
    ...ranges.flatMap(({ range, place }) =>
      checkRange(range, [...at, ...place])
    ),
    ...checkStatic(ipam, at, conf.capabilities),
    ...checkWhereabouts(ipam, at),
    ...checkRoutes(
      ipam["routes"],
      [...at, "routes"],
      isComplete ? subnets : [],
    ),
    ...checkNameservers([...place, "dns"], folded["dns"]),
    ...checkNameservers([...at, "dns"], ipam["dns"]),
  ];
}

/** Lists the ranges of host-local that are valid. */
export function listRanges({ folded }: CheckedPlugin): GivenRange[] {
  const ipam = objectOf(folded["ipam"]);
  if (ipam["type"] !== "host-local") return [];
  return listGivenRanges(ipam).flatMap(({ range, place }) => {
    const subnet = readCidr(range["subnet"]);
    if (subnet === undefined || subnet.hasHostBits) return [];
    const start = readIp(range["rangeStart"]) ?? subnet.network;
    const end = readIp(range["rangeEnd"]) ?? subnet.last;
    return [{ place: ["ipam", ...place, "subnet"], subnet, start, end }];
  });
}

function listGivenRanges(
  ipam: JsonObject,
): { range: JsonObject; place: Place }[] {
  const sets = Array.isArray(ipam["ranges"]) ? ipam["ranges"] : [];
  return [
    ...ipam["subnet"] === undefined ? [] : [{ range: ipam, place: [] }],
    ...sets.flatMap((set, i) =>
      listOf(set).map((range, j) => ({ range, place: ["ranges", i, j] }))
    ),
  ];
}

function checkRange(range: JsonObject, place: Place): Problem[] {
  const subnet = readCidr(range["subnet"]);
  if (subnet === undefined) return [];
  const at = [...place, "subnet"];
  if (subnet.hasHostBits) {
    const problem = `${subnet} has host bits set; write ${subnet.masked()}`;
    return [errorAt(at, problem)];
  }
  const bounds = (["rangeStart", "rangeEnd"] as const).map((key) => ({
    key,
    ip: readIp(range[key]),
  }));
  const outside = bounds.flatMap(({ key, ip }) =>
    ip === undefined || subnet.contains(ip)
      ? []
      : [errorAt([...place, key], `${ip} is not in ${subnet}`)]
  );
  const [start, end] = bounds.map(({ ip }) => ip);
  if (outside.length === 0 && start && end && start.compare(end) > 0) {
    const problem = `rangeStart ${start} is after rangeEnd ${end}`;
    return [errorAt([...place, "rangeStart"], problem)];
  }
  const gateway = readIp(range["gateway"]);
  const { network, broadcast } = subnet;
  const isEmpty = start?.equals(end ?? network) &&
    start.equals(gateway ?? network.next());
  return [
    ...outside,
    ...isEmpty
      ? [warningAt([...place, "rangeStart"], "no address except the gateway")]
      : [],
    ...isStrange(subnet)
      ? [warningAt(at, `${subnet} is not a network for containers`)]
      : [],
    ...gateway === undefined || subnet.contains(gateway)
      ? []
      : [warningAt([...place, "gateway"], `${gateway} is not in ${subnet}`)],
    ...broadcast !== undefined && end?.equals(broadcast)
      ? [warningAt([...place, "rangeEnd"], `${end} is the broadcast address`)]
      : [],
    ...broadcast !== undefined && start?.equals(network)
      ? [
        warningAt(
          [...place, "rangeStart"],
          `${start} is the network's address`,
        ),
      ]
      : [],
  ];
}

function isStrange({ network }: Cidr): boolean {
  return network.isMulticast || network.isLoopback ||
    network.isUnspecified;
}

/** Capabilities, arguments and CNI_ARGS may set the addresses instead. */
function checkWhereabouts(ipam: JsonObject, at: Place): Problem[] {
  if (ipam["type"] !== "whereabouts") return [];
  const hasRange = [ipam, ...listOf(ipam["ipRanges"])]
    .some(({ range }) => range);
  if (hasRange || listOf(ipam["addresses"]).length > 0) return [];
  const problem = 'no address: neither "range" nor "ipRanges" is there';
  return [warningAt([...at, "range"], problem)];
}

function checkStatic(
  ipam: JsonObject,
  at: Place,
  capabilities: Readonly<Record<string, boolean>>,
): Problem[] {
  if (ipam["type"] !== "static") return [];
  const addresses = listOf(ipam["addresses"]);
  const none = addresses.length === 0 && !capabilities["ips"]
    ? [
      warningAt(
        [...at, "addresses"],
        'no address: neither "addresses" nor the capability "ips" is there',
      ),
    ]
    : [];
  return [
    ...none,
    ...addresses.flatMap(({ address, gateway }, index) => {
      const place = [...at, "addresses", index];
      const own = readCidr(address), router = readIp(gateway);
      const { ip, network, broadcast } = own ?? {};
      if (own === undefined || ip === undefined) return [];
      const first = addresses.findIndex((other) =>
        other["address"] === address
      );
      return [
        ...first < index
          ? [warningAt([...place, "address"], `${ip} is repeated`)]
          : [],
        ...broadcast && network && (ip.equals(network) || ip.equals(broadcast))
          ? [
            warningAt(
              [...place, "address"],
              `${ip} is the ${
                ip.equals(network) ? "network's" : "broadcast"
              } address of ${own.masked()}`,
            ),
          ]
          : [],
        ...router === undefined || own.contains(router) ? [] : [
          warningAt([...place, "gateway"], `${router} is not in ${own}`),
        ],
        ...router?.equals(ip)
          ? [
            warningAt(
              [...place, "gateway"],
              `${ip} is the container's address`,
            ),
          ]
          : [],
      ];
    }),
  ];
}

/** @param subnets Those of the container; empty if unknown */
function checkRoutes(
  routes: JsonValue | undefined,
  place: Place,
  subnets: readonly Cidr[],
): Problem[] {
  return listOf(routes).flatMap((route, index, all) => {
    const at = [...place, index];
    const dst = readCidr(route["dst"]), gw = readIp(route["gw"]);
    if (dst === undefined) return [];
    const isSame = (other: JsonObject): boolean =>
      readCidr(other["dst"])?.equals(dst) === true &&
      ["table", "priority"].every((key) => other[key] === route[key]);
    const repeated = all.findIndex(isSame) === index ? [] : [
      warningAt(
        at,
        `a second route to ${dst}; only one of them takes effect`,
      ),
    ];
    const bits = dst.hasHostBits
      ? [warningAt([...at, "dst"], `${dst} has host bits set: ${dst.masked()}`)]
      : [];
    return [...repeated, ...bits, ...checkGateway(dst, gw, at, subnets)];
  });
}

function checkGateway(
  dst: Cidr,
  gw: Ip | undefined,
  at: Place,
  subnets: readonly Cidr[],
): Problem[] {
  if (gw !== undefined && gw.family !== dst.family) {
    const problem = `${gw} is not an IPv${dst.family} address, as ${dst} is`;
    return [errorAt([...at, "gw"], problem)];
  }
  if (subnets.length === 0) return [];
  if (!subnets.some(({ family }) => family === dst.family)) {
    const problem = `the container has no IPv${dst.family} address`;
    return [warningAt([...at, "dst"], problem)];
  }
  const isReachable = gw === undefined || gw.isLinkLocal ||
    subnets.some((subnet) => subnet.contains(gw));
  return isReachable ? [] : [
    warningAt(
      [...at, "gw"],
      `${gw} is in none of the container's subnets: ${subnets.join(", ")}`,
    ),
  ];
}

function checkNameservers(
  place: Place,
  dns: JsonValue | undefined,
): Problem[] {
  const { nameservers } = objectOf(dns);
  return (Array.isArray(nameservers) ? nameservers : [])
    .flatMap((server, index) => {
      if (typeof server !== "string" || readIp(server)) return [];
      const path = [...place, "nameservers", index];
      return [warningAt(path, `"${server}" is not an IP address`)];
    });
}

function listOf(value: JsonValue | undefined): JsonObject[] {
  return Array.isArray(value) ? value.map(objectOf) : [];
}

function readCidr(value: unknown): Cidr | undefined {
  if (typeof value !== "string") return undefined;
  return unlessNoAddress(() => Cidr.parse(value));
}

function readIp(value: unknown): Ip | undefined {
  if (typeof value !== "string") return undefined;
  return unlessNoAddress(() => Ip.parse(value));
}
