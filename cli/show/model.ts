/**
 * What `cni show` shows, as plain values: also its `--json`.
 *
 * @module
 */

import {
  formatLifetime,
  type NetworkAddresses,
} from "../node/network_addresses.ts";

/** A node's networks. */
export interface NodeView {
  /** The node's name. */
  readonly node: string;
  /** The links that lead out of the node, by its default routes. */
  readonly uplinks: readonly UplinkView[];
  /** Bridges, lower links and other links to which attachments are connected. */
  readonly groups: readonly GroupView[];
  /** Persistent addresses of pods that do not exist. */
  readonly staying: readonly PersistentView[];
}

/** A persistent address: it is kept for the name of a pod. */
export interface PersistentView {
  readonly address: string;
  readonly network: string;
  /** The pod, `namespace/name`. */
  readonly pod: string;
  readonly interface: string;
  /** When a different pod can get the address. */
  readonly until: string;
}

/** A link that leads out of the node. */
export interface UplinkView {
  readonly name: string;
  readonly addresses: readonly string[];
  readonly gateways: readonly string[];
}

/** A link of the node, and the namespaces that are connected by it. */
export interface GroupView {
  /** Name of the link; without a link, a description. */
  readonly name: string;
  /** Kind of the link such as `bridge`; `routed` for veth pairs without a bridge, `none` without a link. */
  readonly kind: string;
  readonly isUp: boolean;
  readonly mtu: number | null;
  readonly addresses: readonly string[];
  readonly hasVlanFiltering: boolean;
  /** Bridge ports that no known attachment has. */
  readonly foreignPorts: readonly string[];
  readonly sandboxes: readonly SandboxView[];
}

/** A network namespace, with its interfaces in this group. */
export interface SandboxView {
  /** The pod, `namespace/name`; null if unknown. */
  readonly pod: string | null;
  /** Name of the namespace or, without a name, its path. */
  readonly name: string;
  readonly netns: string;
  readonly containerIDs: readonly string[];
  /** Null if it cannot be read. */
  readonly exists: boolean | null;
  /** Whether no attachment of the namespace is known. */
  readonly isForeign: boolean;
  /** Policy rules, without those that every namespace has. */
  readonly rules: readonly string[];
  readonly interfaces: readonly InterfaceView[];
}

/** An interface of a namespace. */
export interface InterfaceView {
  readonly name: string;
  /** Kind of the link; "" for a physical link. */
  readonly kind: string;
  /** Name of the network; null if no attachment has the interface. */
  readonly network: string | null;
  /** Name of the host's end of the veth pair; null if it has none. */
  readonly hostLink: string | null;
  readonly isUp: boolean;
  readonly mtu: number | null;
  readonly mac: string | null;
  readonly addresses: readonly string[];
  /** The present values that slaac and dhcp received from the network; null for other plugins. */
  readonly fromNetwork: NetworkAddresses | null;
  /** The IPAMClaim of the addresses, `namespace/name`; null without an IPAMClaim. */
  readonly claim: string | null;
  /** Routes, without those that come with the addresses. */
  readonly routes: readonly string[];
  /** VLANs of the bridge port, or of the interface. */
  readonly vlans: readonly string[];
  /** Limits of traffic to the container and from it. */
  readonly limits: {
    readonly ingress: LimitView | null;
    readonly egress: LimitView | null;
  };
  readonly masquerade: MasqueradeView | null;
  /** The link over which the host reaches the addresses; null without a link. */
  readonly hostAccess: string | null;
  readonly portMaps: readonly string[];
  /** Differences between the cached result of ADD and the live state. */
  readonly differences: readonly string[];
}

/** How the node masquerades an interface's packets. */
export interface MasqueradeView {
  readonly families: readonly number[];
  /** The source addresses that rules set; for other families, the kernel chooses the address. */
  readonly outboundAddresses: readonly string[];
}

/** A limit. */
export interface LimitView {
  readonly bitsPerSecond: number;
  readonly burstBytes: number;
  /** The link that has the queue. */
  readonly link: string;
}

/** Returns the title of a namespace. */
export function titleOf({ pod, name }: SandboxView): string {
  return pod ?? name;
}

/** Lists the facts about an interface, a line each, without differences. */
export function describeInterface(
  {
    network,
    hostLink,
    kind,
    mtu,
    isUp,
    limits,
    masquerade,
    ...view
  }: InterfaceView,
): string[] {
  const link = [
    network === null ? "foreign" : network,
    hostLink === null ? kind : `to ${hostLink}`,
    mtu === null ? "" : `mtu ${mtu}`,
    isUp ? "" : "down",
  ].filter((word) => word !== "");
  const { ingress, egress } = limits;
  return [
    link.join(" · "),
    ...describeAddresses(view),
    ...view.claim === null ? [] : [`of IPAMClaim ${view.claim}`],
    ...view.routes.map((route) => `→ ${route}`),
    ...view.vlans.length > 0 ? [`vlan ${view.vlans.join(", ")}`] : [],
    ...ingress === null ? [] : [`in ≤ ${formatLimit(ingress, hostLink)}`],
    ...egress === null ? [] : [`out ≤ ${formatLimit(egress, hostLink)}`],
    ...masquerade === null ? [] : [formatMasquerade(masquerade, view)],
    ...view.hostAccess === null ? [] : [`host access over ${view.hostAccess}`],
    ...view.portMaps.map((map) => `port ${map}`),
  ];
}

/** Lists the addresses with what is left of them, routers and leases. */
function describeAddresses(
  { addresses, fromNetwork }: Pick<
    InterfaceView,
    "addresses" | "fromNetwork"
  >,
): string[] {
  if (fromNetwork === null) return [...addresses];
  const { routers, leases } = fromNetwork;
  const lifetimes = new Map(
    fromNetwork.addresses.map((one) => [one.address, formatLifetime(one)]),
  );
  return [
    ...addresses.map((address) =>
      [address, ...lifetimes.has(address) ? [lifetimes.get(address)] : []]
        .join(" · ")
    ),
    ...routers.map((router) => `router ${router}`),
    ...leases.map(({ address, server, expires, isLost }) =>
      `${isLost ? "lost " : ""}lease of ${address} from ${server}` +
      (isLost ? "" : ` until ${expires}`)
    ),
  ];
}

function formatMasquerade(
  { families, outboundAddresses }: MasqueradeView,
  { addresses }: Pick<InterfaceView, "addresses">,
): string {
  const isWhole = addresses.every((address) =>
    families.includes(address.includes(":") ? 6 : 4)
  );
  return [
    "masquerade",
    ...isWhole ? [] : [`of IPv${families.join(" and IPv")} only`],
    ...outboundAddresses.length === 0
      ? []
      : [`as ${outboundAddresses.join(", ")}`],
  ].join(" ");
}

function formatLimit(
  { bitsPerSecond, burstBytes, link }: LimitView,
  hostLink: string | null,
): string {
  const rate = formatUnits(bitsPerSecond, "bit/s");
  const where = link === hostLink ? "" : ` (${link})`;
  return `${rate}, burst ${formatUnits(burstBytes, "B")}${where}`;
}

function formatUnits(value: number, unit: string): string {
  const power = Math.min(
    4,
    Math.max(0, Math.floor(Math.log10(Math.max(1, value)) / 3)),
  );
  const prefix = ["", "k", "M", "G", "T"][power] ?? "";
  const number = Number((value / 1000 ** power).toPrecision(3));
  return `${number} ${prefix}${unit}`;
}
