/**
 * Problems between networks: ranges that overlap, gateways that one link cannot
 * have together, and names that repeat.
 *
 * @module
 */

import type { Cidr } from "../../net/cidr.ts";
import {
  keyWarningAt,
  type Problem,
  warningAt,
} from "../../metadata/problem.ts";
import { isInTheWay } from "../../plugins/bridge/inspect.ts";
import { describeClash, type NetworkGateway } from "./addresses.ts";
import type { NetworkRange, Validation } from "./validate.ts";

/** A validated configuration. */
export interface Neighbor {
  /** Its file, and the object inside it. */
  readonly label: string;
  readonly file: string;
  readonly validation: Validation;
}

/**
 * Lists the conflicts of a network with other networks.
 *
 * @param others Other networks of the node, in search order
 */
export function checkNeighbors(
  network: Neighbor,
  others: readonly Neighbor[],
): Problem[] {
  const { list, ranges, gateways } = network.validation;
  if (list === undefined) return [];
  const namesakes = others.filter((other) =>
    other.validation.list?.name === list.name
  );
  const strangers = others.filter(({ validation }) =>
    validation.list !== undefined && validation.list.name !== list.name
  );
  return [
    ...checkName(network, namesakes),
    ...ranges.flatMap((range) => checkRange(range, strangers)),
    ...gateways.flatMap((gateway) =>
      checkGateway(gateway, gateways, strangers)
    ),
  ];
}

/**
 * If several files in a directory have one name, the second has the finding for
 * all.
 */
function checkName(
  network: Neighbor,
  namesakes: readonly Neighbor[],
): Problem[] {
  if (!isConfFile(network.file)) return [];
  const isSame = ({ file }: Neighbor): boolean =>
    directoryOf(file) === directoryOf(network.file) && file !== network.file &&
    isConfFile(file);
  const sorted = namesakes.filter(isSame)
    .toSorted((one, other) => one.file < other.file ? -1 : 1);
  const before = sorted.filter(({ file }) => file < network.file);
  const [first] = before;
  // The file that comes first is used.
  if (first === undefined || before.length > 1) return [];
  const more = sorted.length - 1;
  const others = more === 0
    ? ""
    : `; ${more} more ${more === 1 ? "file has" : "files have"} it: ` +
      listSome(sorted.slice(1).map(({ label }) => label));
  return [
    keyWarningAt(
      ["name"],
      `not used: ${first.label} also has this name, and comes first${others}`,
      "file",
    ),
  ];
}

/** Names what a range overlaps: the first network, and how many more. */
function checkRange(
  range: NetworkRange,
  others: readonly Neighbor[],
): Problem[] {
  const clashes = new Map<string, string>();
  for (const { label, validation: { list, ranges } } of others) {
    const name = list?.name ?? "";
    if (clashes.has(name)) continue;
    const clash = ranges.find((given) => overlaps(range, given));
    if (clash === undefined) continue;
    clashes.set(name, `${clash.subnet} of network "${name}" in ${label}`);
  }
  const [first, ...more] = clashes.values();
  if (first === undefined) return [];
  const andMore = more.length === 0
    ? ""
    : `, and ranges of ${more.length} more: ` +
      listSome([...clashes.keys()].slice(1));
  return [
    warningAt(
      range.place,
      `${range.subnet} overlaps ${first}${andMore}`,
      "range-overlap",
    ),
  ];
}

/**
 * Says what ADD does about the gateway of another network, if the link has it
 * already.
 *
 * @param own All gateways of the network, which a link may have together
 */
function checkGateway(
  { place, link, address }: NetworkGateway,
  own: readonly NetworkGateway[],
  others: readonly Neighbor[],
): Problem[] {
  const isOwn = (one: Cidr): boolean =>
    own.some((other) =>
      other.link.name === link.name && other.address.equals(one)
    );
  for (const { label, validation: { list, gateways } } of others) {
    const onLink = gateways.filter((other) => other.link.name === link.name)
      .map((other) => other.address);
    const other = onLink.find((one) => !isOwn(one) && isInTheWay(one, address));
    if (other === undefined || onLink.some((one) => one.equals(address))) {
      continue;
    }
    const whose = `${other} of network "${list?.name}" in ${label}`;
    return [warningAt(place, describeClash(link, whose), "gateway-clash")];
  }
  return [];
}

/** The most names that a message lists. */
const SHOWN = 3;

function listSome(names: readonly string[]): string {
  const rest = names.length > SHOWN ? ", …" : "";
  return names.slice(0, SHOWN).join(", ") + rest;
}

function isConfFile(file: string): boolean {
  return /\.(conflist|conf|json)$/.test(file);
}

function directoryOf(file: string): string {
  return file.slice(0, file.lastIndexOf("/") + 1);
}

/**
 * Reports whether two networks would give the same address to two containers.
 * On interfaces of different masters or VLANs that does no harm.
 */
function overlaps(one: NetworkRange, other: NetworkRange): boolean {
  const isApart = one.segment !== "" && other.segment !== "" &&
    one.segment !== other.segment;
  return !isApart && one.subnet.family === other.subnet.family &&
    one.start.compare(other.end) <= 0 && other.start.compare(one.end) <= 0;
}
