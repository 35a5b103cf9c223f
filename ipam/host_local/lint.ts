/**
 * What is wrong with the ranges of a configuration of host-local.
 *
 * @module
 */

import type { GivenRange, Linted } from "../../cni/tools/about.ts";
import { listOf, readCidr, readIp } from "../../cni/tools/given_values.ts";
import { type JsonObject, objectOf } from "../../cni/json/json.ts";
import {
  errorAt,
  keyWarningAt,
  type Place,
  type Problem,
  warningAt,
} from "../../cni/tools/problem.ts";
import type { Cidr } from "../../net/cidr.ts";

/** See {@linkcode Lint}. */
export function lint({ conf, isOurs }: Linted): Problem[] {
  const ipam = objectOf(conf["ipam"]);
  return [
    ...isOurs ? lintRangeKeys(ipam) : [],
    ...listGivenRanges(ipam)
      .flatMap(({ range, place }) => checkRange(range, ["ipam", ...place])),
  ];
}

/** Keys of the range that is the `ipam` object itself, if that has none. */
function lintRangeKeys(ipam: JsonObject): Problem[] {
  if (ipam["subnet"]) return [];
  return ["rangeStart", "rangeEnd", "gateway"]
    .filter((key) => ipam[key] !== undefined)
    .map((key) =>
      keyWarningAt(
        ["ipam", key],
        'no effect without "subnet" beside it; put it into a range of "ranges"',
      )
    );
}

/** Lists the ranges with a subnet, which may have host bits. */
export function listRanges(ipam: JsonObject): GivenRange[] {
  return listGivenRanges(ipam).flatMap(({ range, place }) => {
    const subnet = readCidr(range["subnet"]);
    if (subnet === undefined) return [];
    const start = readIp(range["rangeStart"]) ?? subnet.network;
    const end = readIp(range["rangeEnd"]) ?? subnet.last;
    return [{ place: [...place, "subnet"], subnet, start, end }];
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
