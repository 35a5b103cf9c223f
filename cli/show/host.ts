/**
 * The node's side of attachments: its links, queues, masquerade and port maps.
 *
 * @module
 */

import type { JsonObject } from "../../base/json/json.ts";
import type { CachedAttachment } from "../../libcni/mod.ts";
import { ifPossible } from "../../base/files/io.ts";
import { sha512 } from "../../base/process/sha512.ts";
import { splitValues, type Table } from "../../ffi/nftables/change.ts";
import { Nftables, type Rule } from "../../ffi/nftables/mod.ts";
import { BridgeVlanRequests } from "../../ffi/rtnl/bridge_vlan.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Parent, TrafficControl } from "../../ffi/rtnl/traffic_control.ts";
import { u16be } from "../../net/bytes.ts";
import { Ip } from "../../net/ip.ts";
import {
  comparedValues,
  newSourceOf,
  verdictOf,
} from "../../ffi/nftables/expression.ts";
import type { LimitView, MasqueradeView } from "./model.ts";
import { listMappings } from "../../plugins/portmap/inspect.ts";

/** Ticks of a second in which the kernel reports bursts: 64 ns each. */
const TICKS_PER_SECOND = 15_625_000;
/** Classes of limits have this minor number, in our plugin and in Go's. */
const SHAPED_CLASS = 48;

/** Reads the qdiscs of the links in a namespace. */
export class Limits {
  readonly #traffic: TrafficControl;
  readonly #links: ReadonlyMap<number, Link>;
  readonly #qdiscs: ReturnType<TrafficControl["qdisc"]["list"]>;

  /** Lists all queues. */
  constructor(host: Rtnl, links: ReadonlyMap<number, Link>) {
    this.#traffic = new TrafficControl(host.socket);
    this.#links = links;
    this.#qdiscs = this.#traffic.qdisc.list();
  }

  /** Returns the limit of what a link sends; null for none. */
  ofSent(ifindex: number): LimitView | null {
    const qdisc = this.#qdiscs.find((one) =>
      one.ifindex === ifindex && one.parent === Parent.Root
    );
    const limit = qdisc?.kind === "htb"
      ? this.#traffic.class.list(ifindex)
        .find(({ handle }) => (handle & 0xffff) === SHAPED_CLASS)
      : qdisc?.bucket;
    if (limit === undefined) return null;
    const { bytesPerSecond, bufferTicks } = limit;
    return {
      bitsPerSecond: bytesPerSecond * 8,
      burstBytes: Math.round(bytesPerSecond * bufferTicks / TICKS_PER_SECOND),
      link: this.#links.get(ifindex)?.name ?? `#${ifindex}`,
    };
  }

  /** Returns the limit of the link to which what a link receives is redirected; null for none. */
  ofReceived(ifindex: number): LimitView | null {
    const ingress = this.#qdiscs.find(({ kind, ...one }) =>
      one.ifindex === ifindex && ["ingress", "clsact"].includes(kind)
    );
    if (ingress === undefined) return null;
    const parent = ingress.kind === "clsact"
      ? Parent.ClsactIngress
      : ingress.handle;
    const target = this.#traffic.filter.list(ifindex, parent)
      .find(({ redirectTo }) => redirectTo !== undefined)?.redirectTo;
    return target === undefined ? null : this.ofSent(target);
  }
}

/** Lists a bridge port's VLANs as text. */
export function listVlans(host: Rtnl, port: Link): string[] {
  const vlans =
    ifPossible(() => new BridgeVlanRequests(host.socket).list(port.index)) ??
      [];
  return vlans.map(({ first, isPvid }) =>
    isPvid ? `${first} (untagged)` : `${first}`
  );
}

/** The NAT of an interface of a container. */
export interface Nat {
  readonly masquerade: MasqueradeView | null;
  readonly portMaps: readonly string[];
}

/** Finds NAT of an attachment, by its hash or its names in comments. */
export type FindNat = (attachment: CachedAttachment) => Promise<Nat>;

/** The tables of iptables-nft. */
const XTABLES: readonly Table[] = [
  { family: "ip", name: "nat" },
  { family: "ip6", name: "nat" },
];
const MASQUERADE: Table = {
  family: "inet",
  name: "cni_plugins_masquerade",
};
const PORTMAP: Table = { family: "inet", name: "cni_portmap" };
const IP6_BYTES = 16;
/** Digits of the hashes in comments. */
const HASH = 16;

/** Reads the node's NAT; finds nothing if it cannot be read. */
export function readNat(netns: string): FindNat {
  using nftables = ifPossible(() => Nftables.open(netns));
  const list = <T>(read: (open: Nftables) => T[]): T[] =>
    (nftables && ifPossible(() => read(nftables))) ?? [];
  const checks = list((open) => open.listRules(MASQUERADE, "masq_checks"));
  const rules = XTABLES.flatMap((table) =>
    list((open) => open.listRules(table, "POSTROUTING"))
      .map((rule) => ({ rule, table }))
  );
  const listChain = (table: Table, chain: string): Rule[] => {
    using open = ifPossible(() => Nftables.open(netns));
    return ifPossible(() => open?.listRules(table, chain)) ?? [];
  };
  const mapRules = XTABLES.flatMap((table) =>
    list((open) => open.listRules(table, "CNI-HOSTPORT-DNAT"))
  );
  const ports = list((open) => open.listSets(PORTMAP)).flatMap((set) => {
    const [, byAddress, digit] = /(addressed_)?ports([46])$/.exec(set) ?? [];
    if (digit === undefined) return [];
    const address = digit === "4" ? "ipv4_addr" as const : "ipv6_addr" as const;
    return list((open) => open.listElements(PORTMAP, set))
      .map(({ key, data, comment }) => ({
        comment,
        text: formatPort(key, data, byAddress ? address : undefined, address),
      }));
  });
  return async ({ network, containerId, ifName, capabilityArgs }) => {
    const names = `name: "${network}" id: "${containerId}"`;
    const hash = (await sha512(`${ifName}:${containerId}`)).slice(0, HASH);
    // A comment begins with the hashes of network and attachment.
    const isOwn = (comment: string): boolean =>
      comment.slice(HASH + 1, 2 * HASH + 1) === hash;
    const own = ports.filter(({ comment }) => isOwn(comment));
    const isMapped = mapRules.some((rule) => rule.mentions(names));
    const jumps = rules.filter(({ rule }) => rule.mentions(names));
    return {
      masquerade: viewMasquerade([
        ...checks.filter(({ comment }) => isOwn(comment))
          .map(({ expressions }) => ({
            family: comparedValues(expressions)
                .some(({ length }) => length === IP6_BYTES)
              ? 6
              : 4,
            source: newSourceOf(expressions),
          })),
        ...jumps.flatMap(({ rule, table }) => {
          const { chain = "" } = verdictOf(rule.expressions) ?? {};
          const family = table.family === "ip6" ? 6 : 4;
          return listChain(table, chain).map(({ expressions }) => ({
            family,
            source: newSourceOf(expressions),
          }));
        }),
      ]),
      portMaps: [
        ...own.map(({ text }) => text),
        ...isMapped ? formatWanted(capabilityArgs) : [],
      ],
    };
  };
}

/**
 * The source address that a rule sets; undefined for no translation, empty if the kernel
 * chooses the address.
 */
interface Translation {
  readonly family: number;
  readonly source: Uint8Array<ArrayBuffer> | undefined;
}

/** Shows rules that translate sources; null for none. */
function viewMasquerade(
  rules: readonly Translation[],
): MasqueradeView | null {
  const acting = rules.filter(({ source }) => source !== undefined);
  if (acting.length === 0) return null;
  const outbound = acting.flatMap(({ source }) =>
    source === undefined || source.length === 0 ? [] : `${Ip.fromBytes(source)}`
  );
  return {
    families: [...new Set(acting.map(({ family }) => family))].sort(),
    outboundAddresses: [...new Set(outbound)],
  };
}

/** Formats the port mappings that a runtime requested. */
function formatWanted(capabilityArgs: JsonObject): string[] {
  return listMappings(capabilityArgs).map(
    ({ hostIp, hostPort, protocol, containerPort }) => {
      const host = hostIp === undefined ? "" : `${hostIp} `;
      return `${host}${hostPort}/${protocol} → ${containerPort}`;
    },
  );
}

const PROTOCOLS: Readonly<Record<number, string>> = {
  6: "tcp",
  17: "udp",
  132: "sctp",
};

function formatPort(
  key: Uint8Array<ArrayBuffer>,
  data: Uint8Array<ArrayBuffer> | undefined,
  hostAddress: "ipv4_addr" | "ipv6_addr" | undefined,
  address: "ipv4_addr" | "ipv6_addr",
): string {
  const values = splitValues(
    key,
    hostAddress === undefined
      ? "inet_proto . inet_service"
      : `${hostAddress} . inet_proto . inet_service`,
  );
  const [protocol, port] = values.slice(-2);
  const [, target] = splitValues(
    data ?? new Uint8Array(0),
    `${address} . inet_service`,
  );
  const decode = (bytes: Uint8Array<ArrayBuffer> | undefined): number =>
    bytes?.length === u16be.size ? u16be.decode(bytes) : 0;
  const host = hostAddress === undefined
    ? ""
    : `${Ip.fromBytes(values[0] ?? new Uint8Array(4))} `;
  const name = PROTOCOLS[protocol?.[0] ?? 0] ?? "";
  return `${host}${decode(port)}/${name} → ${decode(target)}`;
}
