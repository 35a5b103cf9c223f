/**
 * The table of nftables that has all port mappings.
 *
 * ```
 * table inet cni_portmap {
 *   map ports4 { type inet_proto . inet_service : ipv4_addr . inet_service
 *     elements = { tcp . 8080 comment "<attachment>" : 10.1.2.5 . 80, … } }
 *   map addressed_ports4 { the same, the key begins with the host's address }
 *   map ports6, map addressed_ports6
 *   set masqueraded4 { type ipv4_addr . ipv4_addr
 *     elements = { 10.1.2.0 . 10.1.2.5, 127.0.0.0 . 10.1.2.5, … } }
 *   set masqueraded6
 *   set loopback_links { type ifname; elements = { "cni0" } }
 *   set loopback_users { type ifname . ipv4_addr; elements = { "cni0" . 10.1.2.5 } }
 *
 *   chain hostports {
 *     jump conditional
 *     meta nfproto ipv4 dnat ip to ip daddr . meta l4proto . th dport map @addressed_ports4
 *     meta nfproto ipv4 dnat ip to meta l4proto . th dport map @ports4
 *     the same for IPv6
 *   }
 *   chain conditional { <conditions> jump when_<hash>; … }
 *   chain prerouting, chain output { type nat hook … priority dstnat
 *     fib daddr type local jump hostports }
 *   chain postrouting { type nat hook postrouting priority srcnat
 *     ct status dnat ip saddr & 255.255.255.0 . ip daddr @masqueraded4 masquerade
 *     one such rule for each length of a prefix }
 *   chain loopback { type filter hook prerouting priority raw
 *     iifname @loopback_links ip daddr 127.0.0.0/8 drop
 *     iifname @loopback_links ip saddr 127.0.0.0/8 drop }
 * }
 * ```
 *
 * Mappings are elements, so the number of rules does not grow with them.
 * Mappings with conditions have maps and a chain of their own, `when_<hash>`,
 * which all mappings with the same conditions share.
 *
 * The chain `loopback` is also there for ports that iptables forwards. A link is
 * in `loopback_links` as long as a container has ports behind it.
 *
 * @module
 */

import { sha512 } from "../../base/process/sha512.ts";
import {
  addChain,
  addDormantTable,
  addSet,
  addTable,
  appendRule,
  type BaseChain,
  type Change,
  flushChain,
  joinValues,
  splitValues,
  type Table,
  type ValueTypes,
} from "../../ffi/nftables/change.ts";
import {
  decide,
  encodeName,
  type Expression,
  jumpTo,
  masquerade,
  matchChangedDestination,
  matchFamily,
  matchInputIn,
  matchLocalDestination,
  matchNetwork,
  matchNetworkAndDestinationIn,
  redirectBy,
} from "../../ffi/nftables/expression.ts";
import type { Nftables } from "../../ffi/nftables/mod.ts";
import { cstring } from "../../ffi/netlink/attribute.ts";
import { type Bytes, u16be, u8 } from "../../net/bytes.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import { type ForwardedPort, type Forwarding, PROTOCOLS } from "./mapping.ts";

/** The table. */
export const TABLE: Table = { family: "inet", name: "cni_portmap" };
const TABLE_COMMENT = "Port mappings of CNI plugins";
/** The chains that conditions lead from. */
export const CONDITIONAL = "conditional";
/** The set of links that let 127.0.0.0/8 pass. */
export const LOOPBACK_LINKS = "loopback_links";
/** The set of containers for which they do, of all backends. */
export const LOOPBACK_USERS = "loopback_users";
const HOSTPORTS = "hostports", POSTROUTING = "postrouting";
const LOOPBACK_CHAIN = "loopback";
const FAMILIES: readonly IpFamily[] = [4, 6];
const ADDRESS_TYPES = { 4: "ipv4_addr", 6: "ipv6_addr" } as const;
const LOOPBACK = Cidr.parse("127.0.0.0/8");
const LOOPBACK_USER: ValueTypes = "ifname . ipv4_addr";
/** A protocol and a port, each on a boundary of four bytes. */
const PORT_BYTES = 8;
/**
 * Where the kernel calls the table's chains.
 *
 * Source: include/uapi/linux/netfilter_ipv4.h `NF_IP_PRI_*`.
 */
const BASES: Readonly<Record<string, BaseChain>> = {
  prerouting: { type: "nat", hook: "prerouting", priority: -100 },
  output: { type: "nat", hook: "output", priority: -100 },
  [POSTROUTING]: { type: "nat", hook: "postrouting", priority: 100 },
  [LOOPBACK_CHAIN]: { type: "filter", hook: "prerouting", priority: -300 },
};

/** Maps of one family for mappings with the same conditions. */
export interface PortGroup {
  readonly family: IpFamily;
  /** Its chain, with the rules that look in its maps. */
  readonly chain: string;
  /** Prefix of the names of its maps. */
  readonly prefix: string;
  /** In the syntax of `nft`; "" for none. */
  readonly conditions: string;
}

/** An element that an attachment wants, and where. */
export interface MapElement {
  readonly set: string;
  readonly key: Bytes;
  readonly data?: Bytes | undefined;
}

const groupWithout = (family: IpFamily): PortGroup => ({
  family,
  chain: HOSTPORTS,
  prefix: "",
  conditions: "",
});

/** Returns the group for a family's conditions. */
export async function groupOf(
  family: IpFamily,
  words: readonly string[],
): Promise<PortGroup> {
  const conditions = words.join(" ");
  if (conditions.trim() === "") return groupWithout(family);
  const hash = await sha512(`${family} ${conditions}`);
  const chain = `when_${hash.slice(0, 16)}`;
  return { family, chain, prefix: `${chain}_`, conditions };
}

/** A map of ports, by its name. */
export interface PortMap {
  readonly family: IpFamily;
  readonly byAddress: boolean;
  /** Its group's chain, and the prefix of the group's maps. */
  readonly chain: string;
  readonly prefix: string;
}

/** Returns the content of a map; undefined for other sets. */
export function portMapOf(name: string): PortMap | undefined {
  const [whole, prefix = "", addressed, digit] =
    /^(when_[0-9a-f]+_)?(addressed_)?ports([46])$/.exec(name) ?? [];
  if (whole === undefined) return undefined;
  return {
    family: digit === "4" ? 4 : 6,
    byAddress: addressed !== undefined,
    chain: prefix.slice(0, -1) || HOSTPORTS,
    prefix,
  };
}

/** Returns the names of a group's maps. */
export function mapNamesOf(
  { prefix, family }: Pick<PortGroup, "prefix" | "family">,
): string[] {
  return [true, false].map((byAddress) => mapName(prefix, family, byAddress));
}

function mapName(prefix: string, family: IpFamily, byAddress: boolean): string {
  return `${prefix}${byAddress ? "addressed_" : ""}ports${family}`;
}

function keyTypes(
  { family, byAddress }: Pick<PortMap, "family" | "byAddress">,
): ValueTypes {
  return byAddress
    ? `${ADDRESS_TYPES[family]} . inet_proto . inet_service`
    : "inet_proto . inet_service";
}

const dataTypes = (family: IpFamily): ValueTypes =>
  `${ADDRESS_TYPES[family]} . inet_service`;

const bytesOf = (ip: Ip): Bytes => new Uint8Array(ip.toBytes());

/** Encodes a port that is to be forwarded. */
export function encodePort(
  { prefix }: Pick<PortGroup, "prefix">,
  port: ForwardedPort,
): MapElement {
  const { protocol, hostPort, hostIp, target, targetPort } = port;
  return {
    set: mapName(prefix, target.family, hostIp !== undefined),
    key: joinValues(
      ...hostIp === undefined ? [] : [bytesOf(hostIp)],
      u8.encode(PROTOCOLS[protocol]),
      u16be.encode(hostPort),
    ),
    data: joinValues(bytesOf(target), u16be.encode(targetPort)),
  };
}

/** Returns the protocol and the port in the key of a map of ports. */
export function portIn({ key }: MapElement): Bytes {
  return key.subarray(-PORT_BYTES);
}

/**
 * Decodes an element of a map of ports; undefined for an element of a different
 * program.
 */
export function decodePort(
  { set, key, data }: MapElement,
): ForwardedPort | undefined {
  const map = portMapOf(set);
  if (map === undefined || data === undefined) return undefined;
  const values = splitValues(key, keyTypes(map));
  const [number, port] = values.slice(-2);
  const [target, targetPort] = splitValues(data, dataTypes(map.family));
  const protocol = (["tcp", "udp", "sctp"] as const)
    .find((one) => number?.[0] === PROTOCOLS[one]);
  if (!protocol || !port || !target || !targetPort) return undefined;
  return {
    protocol,
    hostPort: u16be.decode(port),
    hostIp: map.byAddress ? Ip.fromBytes(values[0] ?? target) : undefined,
    target: Ip.fromBytes(target),
    targetPort: u16be.decode(targetPort),
  };
}

/**
 * Lists the networks whose connections to a container are masqueraded: its own
 * subnet, from which answers would not pass the host, and the host's loopback.
 */
export function masqueradedNetworks(
  address: Cidr,
  { masqAll }: Pick<Forwarding, "masqAll">,
): Cidr[] {
  if (masqAll) return [Cidr.of(address.ip, 0).masked()];
  const own = address.masked();
  return address.family === 4 ? [own, LOOPBACK] : [own];
}

/** Encodes a network that is masqueraded on the way to a container. */
export function encodeMasquerade(network: Cidr, container: Ip): MapElement {
  return {
    set: `masqueraded${container.family}`,
    key: joinValues(bytesOf(network.masked().ip), bytesOf(container)),
  };
}

/** Encodes the name of a link that lets 127.0.0.0/8 pass. */
export function encodeLink(name: string): Bytes {
  return encodeName(name);
}

/** Decodes a name that {@linkcode encodeLink} has encoded. */
export function decodeLink(key: Bytes): string {
  return cstring.decode(key);
}

/** Encodes a container for which a link lets 127.0.0.0/8 pass. */
export function encodeLoopbackUser(link: string, container: Ip): MapElement {
  return {
    set: LOOPBACK_USERS,
    key: joinValues(encodeLink(link), bytesOf(container)),
  };
}

/** Decodes the link of {@linkcode encodeLoopbackUser}. */
export function decodeUsedLink(key: Bytes): string {
  const [link = key] = splitValues(key, LOOPBACK_USER);
  return decodeLink(link);
}

/** The rules of chains that never change, by chain. */
function fixedRules(): Record<string, readonly (readonly Expression[])[]> {
  const local = [[...matchLocalDestination(), jumpTo(HOSTPORTS)]];
  return {
    [HOSTPORTS]: [
      [jumpTo(CONDITIONAL)],
      ...FAMILIES.map(groupWithout).flatMap(rulesOfGroup),
    ],
    prerouting: local,
    output: local,
    [LOOPBACK_CHAIN]: martianRules(),
  };
}

function martianRules(): Expression[][] {
  return (["destination", "source"] as const).map((field) => [
    ...matchInputIn(LOOPBACK_LINKS),
    ...matchFamily(4),
    ...matchNetwork(field, "==", LOOPBACK),
    decide("drop"),
  ]);
}

function rulesOfGroup({ family, prefix }: PortGroup): Expression[][] {
  return [true, false].map((byAddress) => [
    ...matchFamily(family),
    ...redirectBy(mapName(prefix, family, byAddress), family, { byAddress }),
  ]);
}

function newMaps(
  table: Table,
  { prefix, family }: Pick<PortGroup, "prefix" | "family">,
): Change[] {
  return [true, false].map((byAddress) =>
    addSet(table, {
      name: mapName(prefix, family, byAddress),
      key: keyTypes({ family, byAddress }),
      data: dataTypes(family),
    })
  );
}

/** Lists the changes that add everything that all attachments share. */
function newSkeleton(table: Table): Change[] {
  return [
    ...FAMILIES.flatMap((family) => [
      ...newMaps(table, groupWithout(family)),
      addSet(table, {
        name: `masqueraded${family}`,
        key: `${ADDRESS_TYPES[family]} . ${ADDRESS_TYPES[family]}`,
      }),
    ]),
    ...newLoopbackSets(table),
    addChain(table, HOSTPORTS),
    addChain(table, CONDITIONAL),
    ...Object.keys(BASES).flatMap((name) => newBaseChain(table, name)),
  ];
}

function newLoopbackSets(table: Table): Change[] {
  return [
    addSet(table, { name: LOOPBACK_LINKS, key: "ifname" }),
    addSet(table, { name: LOOPBACK_USERS, key: LOOPBACK_USER }),
  ];
}

function newBaseChain(table: Table, name: string): Change[] {
  const base = BASES[name];
  return base === undefined ? [] : [addChain(table, name, base)];
}

/** Adds the rules of a chain, which must be empty. */
function fill(
  table: Table,
  chain: string,
  rules: readonly (readonly Expression[])[],
): Change[] {
  return rules.map((expressions) => appendRule(table, { chain, expressions }));
}

/** Lists the changes that add the missing parts that all attachments share. */
export function missingSkeleton(nftables: Nftables): Change[] {
  const missing = incompleteChains(nftables);
  const isWhole = nftables.listSets(TABLE).includes(LOOPBACK_USERS);
  if (missing.length === 0 && isWhole) return [];
  const rules = fixedRules();
  return [
    addTable(TABLE, TABLE_COMMENT),
    ...newSkeleton(TABLE),
    ...missing.flatMap((chain) => [
      flushChain(TABLE, chain),
      ...fill(TABLE, chain, rules[chain] ?? []),
    ]),
  ];
}

/**
 * Lists the changes that add the missing parts that keep others out of
 * 127.0.0.0/8.
 */
export function missingLoopback(nftables: Nftables): Change[] {
  return [
    addTable(TABLE, TABLE_COMMENT),
    ...newLoopbackSets(TABLE),
    ...isLoopbackGuarded(nftables) ? [] : [
      ...newBaseChain(TABLE, LOOPBACK_CHAIN),
      flushChain(TABLE, LOOPBACK_CHAIN),
      ...fill(TABLE, LOOPBACK_CHAIN, martianRules()),
    ],
  ];
}

/** Reports whether the chain that drops packets of 127.0.0.0/8 is complete. */
export function isLoopbackGuarded(nftables: Nftables): boolean {
  const { length } = nftables.listRules(TABLE, LOOPBACK_CHAIN);
  return length === martianRules().length;
}

/** Lists the chains with fewer rules than they must have. */
export function incompleteChains(nftables: Nftables): string[] {
  return Object.entries(fixedRules()).filter(([chain, rules]) =>
    nftables.listRules(TABLE, chain).length !== rules.length
  ).map(([chain]) => chain);
}

/** Lists the changes that add a group of mappings with conditions, if it is missing. */
export function missingGroup(
  nftables: Nftables,
  group: PortGroup,
): Change[] {
  if (group.conditions === "") return [];
  if (nftables.listRules(TABLE, group.chain).length > 0) return [];
  return [
    ...newMaps(TABLE, group),
    addChain(TABLE, group.chain),
    ...fill(TABLE, group.chain, rulesOfGroup(group)),
  ];
}

/** Returns the comment of the rule for a length of a prefix. */
const prefixComment = ({ family, prefixLength }: Cidr): string =>
  `IPv${family} /${prefixLength}`;

/** Lists the networks without a rule that looks for them. */
export function listNetworksWithoutRule(
  nftables: Nftables,
  networks: readonly Cidr[],
): Cidr[] {
  const ruled = nftables.listRules(TABLE, POSTROUTING)
    .map(({ comment }) => comment);
  return networks.filter((network) => !ruled.includes(prefixComment(network)));
}

/** Lists the changes that add the rules for networks that are masqueraded. */
export function missingMasquerade(
  nftables: Nftables,
  networks: readonly Cidr[],
): Change[] {
  const missing = new Map(
    listNetworksWithoutRule(nftables, networks).map((
      one,
    ) => [prefixComment(one), one]),
  );
  return [...missing].map(([comment, { family, prefixLength }]) =>
    appendRule(TABLE, {
      chain: POSTROUTING,
      expressions: [
        ...matchChangedDestination(),
        ...matchFamily(family),
        ...matchNetworkAndDestinationIn(
          `masqueraded${family}`,
          family,
          prefixLength,
        ),
        masquerade(),
      ],
      comment,
    })
  );
}

/**
 * Lists changes that test whether the kernel supports such a table. They need
 * not be committed, and do not affect packets.
 */
export function probeOfTable(): Change[] {
  const table: Table = { ...TABLE, name: `${TABLE.name}_probe` };
  return [
    addDormantTable(table),
    ...newSkeleton(table),
    ...Object.entries(fixedRules()).flatMap(([chain, rules]) =>
      fill(table, chain, rules)
    ),
  ];
}
