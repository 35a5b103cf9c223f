/**
 * Mistakes in the ranges of a configuration of host-local.
 *
 * @module
 */

import type {
  GivenRange,
  GivenSubnet,
  Linted,
} from "../../metadata/plugin_metadata.ts";
import {
  type ConfigPath,
  errorAt,
  formatPlace,
  keyWarningAt,
  listOf,
  type Problem,
  readCidr,
  readIp,
  under,
  warningAt,
} from "../../metadata/problem.ts";
import { type JsonObject, objectOf } from "../../base/json/json.ts";
import type { Cidr } from "../../net/cidr.ts";
import { type Ip, unlessNoAddress } from "../../net/ip.ts";
import {
  countAddresses,
  listWithheld,
  parseBlock,
  type Range,
  rangeContains,
  resolveRange,
} from "./range.ts";

/** A range as written, and its place. */
interface WrittenRange {
  readonly range: JsonObject;
  readonly place: ConfigPath;
}

/** See {@linkcode Lint}. */
export function lint({ conf, isOurs }: Linted): Problem[] {
  const ipam = objectOf(conf["ipam"]);
  const sets = listSets(ipam);
  const found = [
    ...isOurs ? [...lintRangeKeys(ipam), ...lintStay(ipam)] : [],
    ...sets.flat().flatMap(checkRange),
  ];
  // A finding about a single range explains findings about several ranges.
  const areFine = found.every(({ severity }) => severity !== "error");
  return under(["ipam"], [
    ...found,
    ...areFine ? checkTogether(sets, isOurs) : [],
  ]);
}

/** Keys of the range that is the `ipam` object itself, if that has none. */
function lintRangeKeys(ipam: JsonObject): Problem[] {
  if (ipam["subnet"]) return [];
  return ["rangeStart", "rangeEnd", "gateway"]
    .filter((key) => ipam[key] !== undefined)
    .map((key) =>
      keyWarningAt(
        [key],
        'no effect without "subnet" next to it; put it into a range of "ranges"',
        "no-effect",
      )
    );
}

/** Reports whether a directory is empty after a reboot. */
export function isVolatile(directory: string): boolean {
  return /^\/(run|tmp|var\/run|dev\/shm)(\/|$)/.test(directory);
}

function lintStay({ stay, stayTime, dataDir }: JsonObject): Problem[] {
  if (stay === undefined) {
    return stayTime === undefined ? [] : [
      keyWarningAt(
        ["stayTime"],
        'no effect without "stay": "name"',
        "no-effect",
      ),
    ];
  }
  return [
    ...stayTime === undefined
      ? [errorAt(["stay"], 'needs "stayTime": how long a name keeps it')]
      : [],
    ...typeof dataDir === "string" && isVolatile(dataDir)
      ? [
        warningAt(
          ["dataDir"],
          `no pod name keeps its address across a reboot: "${dataDir}" is empty then`,
          "node-file",
        ),
      ]
      : [],
  ];
}

/** Lists the ranges with a subnet, which may have host bits. */
export function listRanges(ipam: JsonObject): GivenRange[] {
  return listSets(ipam).flat().flatMap(({ range, place }) => {
    const subnet = readCidr(range["subnet"]);
    if (subnet === undefined) return [];
    const start = readIp(range["rangeStart"]) ?? subnet.network;
    const end = readIp(range["rangeEnd"]) ?? subnet.last;
    const [withheld = []] = resolve({ range, place })
      .map(({ used }) => listWithheld(used));
    return [{ place: [...place, "subnet"], subnet, start, end, withheld }];
  });
}

/** Lists the subnets of the ranges that the plugin can read, as sets. */
export function listSubnets(ipam: JsonObject): GivenSubnet[][] {
  return listSets(ipam).map((set) =>
    set.flatMap(resolve).map(({ place, used: { subnet, gateway } }) => ({
      place: [...place, "subnet"],
      subnet,
      gateway,
    }))
  );
}

/** Lists the sets of ranges; `ipam` itself may be a range, the first set. */
function listSets(ipam: JsonObject): WrittenRange[][] {
  const sets = Array.isArray(ipam["ranges"]) ? ipam["ranges"] : [];
  return [
    ...ipam["subnet"] === undefined ? [] : [[{ range: ipam, place: [] }]],
    ...sets.map((set, i) =>
      listOf(set).map((range, j) => ({ range, place: ["ranges", i, j] }))
    ),
  ];
}

function checkRange({ range, place }: WrittenRange): Problem[] {
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
  if (gateway !== undefined && gateway.family !== subnet.family) {
    const problem =
      `${gateway} is not an IPv${subnet.family} address, as ${subnet} is`;
    return [errorAt([...place, "gateway"], problem)];
  }
  return [
    ...outside,
    ...checkExclusions(range, place, subnet),
    ...isStrange(subnet)
      ? [warningAt(at, `${subnet} is not a network for containers`)]
      : [],
    ...checkGateway(gateway, subnet)
      .map((problem) =>
        warningAt(
          [...place, "gateway"],
          problem,
          gateway && subnet.contains(gateway) ? "value" : "gateway-off-subnet",
        )
      ),
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

function checkGateway(gateway: Ip | undefined, subnet: Cidr): string[] {
  if (gateway === undefined) return [];
  if (!subnet.contains(gateway)) {
    return [
      `${gateway} is not in ${subnet}: containers reach it on the link`,
    ];
  }
  const { network, broadcast } = subnet;
  // In a /31, both are addresses of hosts.
  if (broadcast === undefined) return [];
  if (gateway.equals(broadcast)) return [`${gateway} is the broadcast address`];
  return gateway.equals(network) ? [`${gateway} is the network's address`] : [];
}

function checkExclusions(
  range: JsonObject,
  place: ConfigPath,
  subnet: Cidr,
): Problem[] {
  const { exclude } = range;
  return (Array.isArray(exclude) ? exclude : []).flatMap((text, index) => {
    const block = typeof text === "string"
      ? unlessNoAddress(() => parseBlock(text))
      : undefined;
    if (block === undefined) return [];
    const at = [...place, "exclude", index];
    if (block.hasHostBits) {
      const problem = `${block} has host bits set; write ${block.masked()}`;
      return [errorAt(at, problem)];
    }
    return subnet.containsCidr(block)
      ? []
      : [errorAt(at, `${text} is not in ${subnet}`)];
  });
}

/** A range with its defaults, as it is used. */
interface UsedRange extends WrittenRange {
  readonly used: Range;
}

function checkTogether(
  sets: readonly WrittenRange[][],
  isOurs: boolean,
): Problem[] {
  const used = sets.map((set) => set.flatMap(resolve));
  const mixed = used.flatMap(checkFamilies);
  if (mixed.length > 0) return mixed;
  return [
    ...checkOverlaps(used.flat()),
    ...used.flatMap((set) => checkRoom(set, isOurs)),
  ];
}

/** Fills in the defaults; empty if the plugin cannot read the range. */
function resolve({ range, place }: WrittenRange): UsedRange[] {
  const subnet = readCidr(range["subnet"]);
  if (subnet === undefined) return [];
  const { exclude } = range;
  try {
    const used = resolveRange({
      subnet,
      rangeStart: readIp(range["rangeStart"]),
      rangeEnd: readIp(range["rangeEnd"]),
      gateway: readIp(range["gateway"]),
      exclude: Array.isArray(exclude)
        ? exclude.map((text) => parseBlock(String(text)))
        : [],
    });
    return [{ range, place, used }];
  } catch {
    return []; // The plugin's STATUS reports the reason.
  }
}

function checkFamilies([first, ...others]: readonly UsedRange[]): Problem[] {
  const family = first?.used.subnet.family;
  return others.filter(({ used }) => used.subnet.family !== family)
    .map(({ used: { subnet }, place }) =>
      errorAt(
        [...place, "subnet"],
        `${subnet} is IPv${subnet.family} in a set of IPv${family} ranges; ` +
          "write a set for each family",
      )
    );
}

/** Finds ranges that share addresses, in any set. */
function checkOverlaps(ranges: readonly UsedRange[]): Problem[] {
  const sorted = ranges.toSorted((one, other) =>
    one.used.start.compare(other.used.start)
  );
  let longest: UsedRange | undefined;
  return sorted.flatMap((range) => {
    const before = longest;
    const { start, end } = range.used;
    const overlaps = before !== undefined &&
      rangeContains(before.used, start);
    if (before === undefined || before.used.end.compare(end) < 0) {
      longest = range;
    }
    if (!overlaps) return [];
    // The range that is written later should change.
    const [earlier, later] = ranges.indexOf(before) < ranges.indexOf(range)
      ? [before, range]
      : [range, before];
    const where = formatPlace(["ipam", ...earlier.place, "subnet"]);
    return [
      errorAt(
        [...later.place, "subnet"],
        `${later.used.subnet} overlaps ${earlier.used.subnet} in ${where}`,
      ),
    ];
  });
}

/** Reports sets without an address for a container, or with a single address. */
function checkRoom(set: readonly UsedRange[], isOurs: boolean): Problem[] {
  const [first] = set;
  if (first === undefined) return [];
  const { range, place, used: { subnet, excluded } } = first;
  const key = range["rangeStart"] === undefined ? "subnet" : "rangeStart";
  const room = countAddresses(set.map(({ used }) => used));
  if (room === 0n) {
    const problem = excluded.length > 0
      ? 'no address is left: the gateway and "exclude" cover the whole range'
      : "no address except the gateway";
    return [errorAt([...place, key], problem)];
  }
  const tiny = set.find(({ used: { subnet } }) =>
    subnet.network.bitLength - subnet.prefixLength <= 1
  );
  if (tiny === undefined) return [];
  if (!isOurs) {
    const problem =
      `${tiny.used.subnet} is too small: the Go plugin refuses it`;
    return [errorAt([...tiny.place, "subnet"], problem)];
  }
  // With a start, a single address is intended.
  return room > 1n || key === "rangeStart" ? [] : [
    errorAt(
      [...place, key],
      `${subnet} has one address for containers: a second container gets ` +
        "none; also set rangeStart if that is intended",
    ),
  ];
}

function isStrange({ network }: Cidr): boolean {
  return network.isMulticast || network.isLoopback ||
    network.isUnspecified;
}
