/**
 * Mistakes in a configuration of whereabouts, and keys without effect.
 *
 * @module
 */

import type { GivenSubnet, Linted } from "../../metadata/plugin_metadata.ts";
import {
  type ConfigPath,
  errorAt,
  formatPlace,
  listOf,
  type Problem,
  readCidr,
  readIp,
  under,
  warningAt,
} from "../../metadata/problem.ts";
import { type JsonObject, objectOf } from "../../base/json/json.ts";
import { unlessNoAddress } from "../../net/ip.ts";
import { parseExcluded, parseRange, type RangeText } from "./range.ts";

/** A range as written. */
interface WrittenRange {
  readonly range: JsonObject;
  readonly place: ConfigPath;
  readonly text: RangeText;
}

/**
 * Lists problems. Capabilities, arguments and CNI_ARGS may set the addresses
 * instead.
 */
export function lint({ conf }: Linted): Problem[] {
  const ipam = objectOf(conf["ipam"]);
  const all = listWritten(ipam);
  const ranges = all.flatMap(readRange);
  const hasRange = all.some(({ range }) => range["range"]);
  if (!hasRange && listOf(ipam["addresses"]).length === 0) {
    const problem = 'no address: neither "range" nor "ipRanges" is set';
    return [warningAt(["ipam", "range"], problem)];
  }
  return under(["ipam"], [
    ...ranges.flatMap(checkRange),
    ...checkOverlaps(ranges),
    ...checkGateway(ipam, ranges),
    ...checkStay(ipam),
    ...listOf(ipam["addresses"]).flatMap(({ address, gateway }, index) => {
      const own = readCidr(address), router = readIp(gateway);
      if (!own || !router || own.family === router.family) return [];
      const problem =
        `${router} is not an IPv${own.family} address, as ${own.ip} is`;
      return [errorAt(["addresses", index, "gateway"], problem)];
    }),
  ]);
}

/** Lists the subnets of ranges and addresses: a container has one of each. */
export function listSubnets(ipam: JsonObject): GivenSubnet[][] {
  const router = readIp(ipam["gateway"]);
  const ranges = listWritten(ipam).flatMap(readRange).map(({ place, text }) => {
    const subnet = text.cidr.masked();
    const gateway = router?.family === subnet.family ? router : undefined;
    return [{ place: [...place, "range"], subnet, gateway }];
  });
  const fixed = listOf(ipam["addresses"]).map(({ address, gateway }, index) => {
    const subnet = readCidr(address)?.masked();
    const place = ["addresses", index, "address"];
    return subnet === undefined
      ? []
      : [{ place, subnet, gateway: readIp(gateway) }];
  });
  return [...ranges, ...fixed];
}

function listWritten(ipam: JsonObject): Omit<WrittenRange, "text">[] {
  return [
    { range: ipam, place: [] },
    ...listOf(ipam["ipRanges"])
      .map((range, index) => ({ range, place: ["ipRanges", index] })),
  ];
}

/** Reads a range; empty if the plugin cannot read it. */
function readRange(
  { range, place }: Omit<WrittenRange, "text">,
): WrittenRange[] {
  const { range: given } = range;
  const text = typeof given === "string" && given !== ""
    ? unlessNoAddress(() => parseRange(given))
    : undefined;
  return text === undefined ? [] : [{ range, place, text }];
}

function checkStay(
  { stay, stayTime, stayWhenScaled, node_slice_size }: JsonObject,
): Problem[] {
  const isOf = (kind: string): boolean => stay === kind;
  return [
    ...isOf("name") && stayTime === undefined
      ? [errorAt(["stay"], 'needs "stayTime": how long a name keeps it')]
      : [],
    ...!isOf("name") && stayTime !== undefined
      ? [
        warningAt(
          ["stayTime"],
          'no effect without "stay": "name"',
          "no-effect",
        ),
      ]
      : [],
    ...!isOf("statefulset") && stayWhenScaled !== undefined
      ? [
        warningAt(
          ["stayWhenScaled"],
          'no effect without "stay": "statefulset"',
          "no-effect",
        ),
      ]
      : [],
    ...stay !== undefined && node_slice_size
      ? [
        errorAt(
          ["stay"],
          "impossible with node_slice_size: slices do not move",
        ),
      ]
      : [],
  ];
}

function checkRange({ range, place, text }: WrittenRange): Problem[] {
  if (text.start && text.end && text.start.compare(text.end) > 0) {
    const problem = `${text.end} is before ${text.start}`;
    return [errorAt([...place, "range"], problem)];
  }
  const { cidr } = text;
  const bounds = ["range_start", "range_end"] as const;
  const [start, end] = bounds.map((key) => readIp(range[key]));
  const outside = bounds.flatMap((key) => {
    const ip = readIp(range[key]);
    return ip === undefined || cidr.contains(ip) ? [] : [
      warningAt(
        [...place, key],
        `no effect: ${ip} is not in ${cidr}`,
        "no-effect",
      ),
    ];
  });
  const { exclude } = range;
  const blocks = (Array.isArray(exclude) ? exclude : []).map((text) =>
    unlessNoAddress(() => parseExcluded(String(text)))
  );
  const whole = blocks.findIndex((block) => block?.containsCidr(cidr));
  return [
    ...outside,
    ...whole < 0 ? [] : [
      errorAt(
        [...place, "exclude", whole],
        `${blocks[whole]} excludes all addresses of ${cidr}`,
      ),
    ],
    ...outside.length === 0 && start && end && start.compare(end) > 0
      ? [
        errorAt(
          [...place, "range_end"],
          `${end} is before range_start ${start}`,
        ),
      ]
      : [],
    ...blocks.flatMap((block, index) =>
      block === undefined || cidr.overlaps(block) ? [] : [
        warningAt(
          [...place, "exclude", index],
          `no effect: ${block} is not in ${cidr}`,
          "no-effect",
        ),
      ]
    ),
  ];
}

/** Ranges of one interface that would have the same addresses. */
function checkOverlaps(ranges: readonly WrittenRange[]): Problem[] {
  return ranges.flatMap(({ text: { cidr }, place }, index) => {
    const other = ranges.slice(0, index)
      .find(({ text }) => text.cidr.overlaps(cidr));
    return other === undefined ? [] : [
      warningAt(
        [...place, "range"],
        `${cidr} overlaps ${other.text.cidr} in ` +
          formatPlace(["ipam", ...other.place, "range"]),
        "range-overlap",
      ),
    ];
  });
}

function checkGateway(
  { gateway }: JsonObject,
  ranges: readonly WrittenRange[],
): Problem[] {
  const ip = readIp(gateway);
  const isFine = ip === undefined || ranges.length === 0 ||
    ranges.some(({ text: { cidr } }) => cidr.contains(ip));
  return isFine ? [] : [
    warningAt(
      ["gateway"],
      `${gateway} is in none of the ranges: containers reach it on the link`,
      "gateway-off-subnet",
    ),
  ];
}
