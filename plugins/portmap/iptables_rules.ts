/**
 * The Go plugin's chains and rules of iptables, and what is read from them.
 *
 * ```
 * -A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT    (OUTPUT, too)
 * -A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"net\" id: \"c1\""
 *     -m multiport --dports 8080 -j CNI-DN-<hash of network and container>
 * -A CNI-DN-<hash> -s 10.1.2.0/24 -p tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
 * -A CNI-DN-<hash> -s 127.0.0.1/32 -p tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
 * -A CNI-DN-<hash> -p tcp --dport 8080 -j DNAT --to-destination 10.1.2.5:80
 * -A CNI-DN-<hash> -m comment --comment "if: eth0, netns: 4:4026532 /run/netns/c1"
 *
 * -A CNI-HOSTPORT-SETMARK -j MARK --set-xmark 0x2000/0x2000
 * -A POSTROUTING -j CNI-HOSTPORT-MASQ
 * -A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
 * ```
 *
 * Only this project adds the last rule of a container's chain, which does
 * nothing. It ends the rules of one interface: all interfaces of a container on
 * one network share a chain.
 *
 * Source: containernetworking/plugins plugins/meta/portmap/portmap_iptables.go.
 *
 * @module
 */

import { sha512 } from "../../base/process/sha512.ts";
import type { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import type { Attachment } from "../../cni/config/types.ts";
import { describeNamespace } from "../parts/owner/element_owner.ts";
import {
  commentOf,
  optionsOf,
  splitRule,
  withComment,
} from "../parts/firewall/iptables/program.ts";
import {
  type IptablesRule,
  spellingOf,
  type Wanted,
} from "../parts/firewall/iptables/rules.ts";
import {
  type ForwardedPort,
  type Forwarding,
  IPTABLES_HOSTPORTS as HOSTPORTS,
  portsOf,
} from "./mapping.ts";
import type { Protocol } from "./schema.ts";

/** The chain that led to containers' chains with the Go plugin before 0.7. */
export const OLD_HOSTPORTS = "CNI-HOSTPORT-SNAT";
const SET_MARK = "CNI-HOSTPORT-SETMARK", MASQUERADE = "CNI-HOSTPORT-MASQ";
/** How many ports one match of iptables can have. */
const PORTS_PER_RULE = 15;
/** Source: include/uapi/linux/netfilter/xt_comment.h `XT_MAX_COMMENT_LEN`. */
const MAX_COMMENT_LENGTH = 255;

/** The chains of a container. */
export interface ChainNames {
  readonly chain: string;
  /** The chain of the Go plugin before 0.7. */
  readonly oldChain: string;
}

/** Computes the names of a container's chains. */
export async function chainNamesOf(
  { network, containerId }: Pick<Attachment, "network" | "containerId">,
): Promise<ChainNames> {
  const hash = (await sha512(network + containerId)).slice(0, 21);
  return { chain: `CNI-DN-${hash}`, oldChain: `CNI-SN-${hash}` };
}

/** Returns the start of the comments of all containers on a network. */
export function commentPrefixOf(network: string): string {
  return `dnat name: "${network}" id: "`;
}

/** Returns the chains and rules that all containers share. */
export function skeletonOf(
  { snat, markMasqBit, externalSetMarkChain }: Pick<
    Forwarding,
    "snat" | "markMasqBit" | "externalSetMarkChain"
  >,
): Wanted {
  const local = ["-m", "addrtype", "--dst-type", "LOCAL", "-j", HOSTPORTS];
  const entries: IptablesRule[] = ["PREROUTING", "OUTPUT"].map((chain) => ({
    chain,
    args: local,
  }));
  if (!snat || externalSetMarkChain !== undefined) {
    return { chains: [HOSTPORTS], rules: entries };
  }
  // Not `1 << 31`, which is negative.
  const bit = `0x${(2 ** markMasqBit).toString(16)}`;
  const mark = `${bit}/${bit}`;
  return {
    chains: [SET_MARK, MASQUERADE, HOSTPORTS],
    rules: [
      {
        chain: SET_MARK,
        args: [
          ...withComment("CNI portfwd masquerade mark"),
          ...["-j", "MARK", "--set-xmark", mark],
        ],
      },
      {
        chain: MASQUERADE,
        args: ["-m", "mark", "--mark", mark, "-j", "MASQUERADE"],
      },
      {
        chain: "POSTROUTING",
        args: [
          ...withComment("CNI portfwd requiring masquerade"),
          ...["-j", MASQUERADE],
        ],
        // The rules of `ipMasq` would come first otherwise.
        isFirst: true,
      },
      ...entries,
    ],
  };
}

/**
 * Lists the rules that lead to a container's chain: one for up to 15 ports.
 * Conditions come first, as with nftables.
 */
export function entriesOf(
  { owner, mappings, conditions }: Pick<
    Forwarding,
    "owner" | "mappings" | "conditions"
  >,
  { family }: Pick<Cidr, "family">,
  { chain }: ChainNames,
): IptablesRule[] {
  const comment = entryComment(owner);
  const protocols = Map.groupBy(mappings, ({ protocol }) => protocol);
  return [...protocols.keys()].sort().flatMap((protocol) => {
    // As the Go plugin, also those for addresses of the other family.
    const ports = (protocols.get(protocol) ?? []).map((one) => one.hostPort);
    return groupsOf(ports).map((group) => ({
      chain: HOSTPORTS,
      args: [
        ...withComment(comment),
        ...["-m", "multiport", "-p", protocol],
        ...["--destination-ports", group.join(",")],
        ...conditions[family],
        ...["-j", chain],
      ],
      isFirst: conditions[family].length > 0,
    }));
  });
}

/**
 * Lists further such rules, before all others: for ports of one address of the
 * host that another container has for all other addresses.
 */
export function addressedEntriesOf(
  { owner, conditions }: Pick<Forwarding, "owner" | "conditions">,
  ports: readonly ForwardedPort[],
  { chain }: ChainNames,
): IptablesRule[] {
  return ports.map(({ protocol, hostPort, hostIp, target }) => ({
    chain: HOSTPORTS,
    args: [
      ...["-d", String(hostIp)],
      ...withComment(entryComment(owner)),
      ...["-m", "multiport", "-p", protocol],
      ...["--destination-ports", String(hostPort)],
      ...conditions[target.family],
      ...["-j", chain],
    ],
    isFirst: true,
  }));
}

/** Like the Go plugin's. */
function entryComment(
  { network, containerId }: Pick<Attachment, "network" | "containerId">,
): string {
  return trimComment(`${commentPrefixOf(network)}${containerId}"`);
}

/** Lists the rules of a container's chain that forward to an address. */
export function portRulesOf(
  forwarding: Omit<Forwarding, "owner" | "netns" | "conditions">,
  address: Cidr,
  { chain }: ChainNames,
): IptablesRule[] {
  const { snat, masqAll, externalSetMarkChain = SET_MARK } = forwarding;
  const isIp4 = address.family === 4;
  const everything = isIp4 ? "0.0.0.0/0" : "::/0";
  const sources = [
    ...snat ? [masqAll ? everything : address.toString()] : [],
    ...snat && isIp4 && !masqAll ? ["127.0.0.1"] : [],
  ];
  const ports = portsOf({ ...forwarding, addresses: [address] });
  return addressedFirst(ports).flatMap(
    ({ protocol, hostPort, hostIp, target, targetPort }) => {
      const packets = [
        ...["-p", protocol, "--dport", String(hostPort)],
        ...hostIp === undefined ? [] : ["-d", hostIp.toString()],
      ];
      const host = isIp4 ? `${target}` : `[${target}]`;
      return [
        ...sources.map((source) => ["-s", source, "-j", externalSetMarkChain]),
        ["-j", "DNAT", "--to-destination", `${host}:${targetPort}`],
      ].map((rest) => ({ chain, args: [...packets, ...rest] }));
    },
  );
}

/** Puts a mapping with an address of the host before one without for its port. */
function addressedFirst(ports: readonly ForwardedPort[]): ForwardedPort[] {
  const groups = Map.groupBy(
    ports,
    ({ protocol, hostPort }) => `${protocol} ${hostPort}`,
  );
  return [...groups.values()].flatMap((group) => [
    ...group.filter(({ hostIp }) => hostIp !== undefined),
    ...group.filter(({ hostIp }) => hostIp === undefined),
  ]);
}

/** The rules of one interface in its container's chain, as iptables lists them. */
export interface Section {
  readonly rules: readonly string[];
  /** Undefined if the Go plugin added the rules. */
  readonly ifName: string | undefined;
  /** Which namespace the interface is in; undefined if unknown. */
  readonly netns: string | undefined;
}

/** Returns the rule that ends an interface's rules, and does nothing itself. */
export function endOfSection(
  { owner: { ifName }, netns }: Pick<Forwarding, "owner" | "netns">,
  { chain }: ChainNames,
): IptablesRule {
  const text = `if: ${ifName}, netns: ${describeNamespace(netns)}`;
  const isTooLong = new TextEncoder().encode(text).length > MAX_COMMENT_LENGTH;
  const comment = isTooLong ? `if: ${ifName}` : text;
  return { chain, args: withComment(comment) };
}

/** Splits a container's chain by interfaces. */
export function sectionsOf(listed: readonly string[]): Section[] {
  const sections: Section[] = [];
  let rules: string[] = [];
  for (const rule of listed) {
    rules.push(rule);
    const end = /^if: (\S+?)(?:, netns: (.*))?$/.exec(commentOf(rule));
    if (end === null) continue;
    sections.push({ rules, ifName: end[1], netns: end[2] });
    rules = [];
  }
  if (rules.length === 0) return sections;
  return [...sections, { rules, ifName: undefined, netns: undefined }];
}

/** Lists the ports that listed rules forward. */
export function readPorts(
  { rules }: Pick<Section, "rules">,
): ForwardedPort[] {
  return rules.flatMap((rule) => {
    const valueOf = optionsOf(rule);
    const to = /^\[?(.+?)\]?:(\d+)$/.exec(valueOf("--to-destination") ?? "");
    const hostIp = valueOf("-d")?.replace(/\/\d+$/, "");
    if (to?.[1] === undefined) return [];
    return {
      protocol: valueOf("-p") as Protocol,
      hostPort: Number(valueOf("--dport")),
      hostIp: hostIp === undefined ? undefined : Ip.parse(hostIp),
      target: Ip.parse(to[1]),
      targetPort: Number(to[2]),
    };
  });
}

/** A rule that leads to a container's chain, as iptables lists it. */
export interface Entry {
  readonly rule: string;
  readonly chain: string;
  readonly protocol: string | undefined;
  readonly ports: readonly number[];
  /** Other matches, in the same spelling if they mean the same. */
  readonly conditions: string;
}

/** Returns the container's chain that a listed rule leads to; "" for none. */
export function chainAfter(rule: string): string {
  return / -j (CNI-[DS]N-\S+)/.exec(rule)?.[1] ?? "";
}

/** Reads the rules that lead to containers' chains; others are left out. */
export function readEntries(listed: readonly string[]): Entry[] {
  return listed.flatMap((rule) => {
    const valueOf = optionsOf(rule);
    const chain = valueOf("-j") ?? "";
    const ports = (valueOf("--dports") ?? "").split(",").map(Number);
    return /^CNI-[DS]N-/.test(chain)
      ? {
        rule,
        chain,
        protocol: valueOf("-p"),
        ports,
        conditions: conditionsOf(splitRule(rule).slice(2)),
      }
      : [];
  });
}

/** Options of a rule that leads to a container's chain, besides its conditions. */
const ENTRY_OPTIONS: readonly string[] = [
  ...["--comment", "-p", "--dports", "--destination-ports", "-j"],
];

/** Returns the conditions of a rule that leads to a container's chain. */
export function conditionsOf(args: readonly string[]): string {
  return spellingOf(
    args.filter((word, at) =>
      ![word, args[at - 1] ?? ""].some((one) => ENTRY_OPTIONS.includes(one))
    ),
  );
}

/** Like the Go plugin, and iptables then drops the last dot. */
function trimComment(text: string): string {
  return text.length <= MAX_COMMENT_LENGTH
    ? text
    : `${text.slice(0, MAX_COMMENT_LENGTH - 2)}...`;
}

function groupsOf(ports: readonly number[]): number[][] {
  const count = Math.ceil(ports.length / PORTS_PER_RULE);
  return Array.from(
    { length: count },
    (_, index) =>
      ports.slice(index * PORTS_PER_RULE, (index + 1) * PORTS_PER_RULE),
  );
}
