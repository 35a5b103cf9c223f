/**
 * The interfaces of a namespace, and what the node does for them.
 *
 * @module
 */

import type { Result } from "../../cni/result/result.ts";
import type { Address } from "../../ffi/rtnl/address.ts";
import { Table } from "../../ffi/rtnl/constants.ts";
import {
  FALLBACK_LINKS,
  filtersVlans,
  type Link,
} from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Route } from "../../ffi/rtnl/route.ts";
import { findCachedClaim } from "../node/ipam_claims.ts";
import { readNetworkAddresses } from "../node/network_addresses.ts";
import type { NodeAttachment } from "../node/node_attachments.ts";
import { resultOf } from "../../libcni/cached_result.ts";
import { formatRoute, listDifferences } from "./differences.ts";
import { type FindNat, Limits, listVlans, readNat } from "./host.ts";
import type { InterfaceView } from "./model.ts";
import { Cidr } from "../../net/cidr.ts";
import { isAccessLinkName } from "../../plugins/parts/link/access_link_name.ts";

/** An interface, and what of the node it is connected to. */
export interface Connected {
  readonly group: string;
  readonly view: InterfaceView;
}

/** The state of the node's own namespace. */
export class Host implements Disposable {
  /** Its socket. */
  readonly rtnl: Rtnl;
  /** Its links by index. */
  readonly links: ReadonlyMap<number, Link>;
  /** The addresses of its links. */
  readonly addresses: readonly Address[];
  /** Its queues. */
  readonly limits: Limits;
  /** Its NAT. */
  readonly nat: FindNat;

  /** Reads the namespace at a path. */
  constructor(netns: string) {
    this.rtnl = Rtnl.open(netns);
    const { items: links } = this.rtnl.link.listSome();
    this.links = new Map(links.map((link) => [link.index, link]));
    this.addresses = this.rtnl.address.list();
    this.limits = new Limits(this.rtnl, this.links);
    this.nat = readNat(netns);
  }

  /** Closes the socket. */
  [Symbol.dispose](): void {
    this.rtnl[Symbol.dispose]();
  }
}

/** Names of groups that are not links. No link's name contains a blank. */
export const ROUTED = "routed by the node",
  INSIDE = "not connected to the node";

/** Formats the addresses of a link, without link-local addresses. */
export function formatAddresses(
  addresses: readonly Address[],
  { index }: Link,
): string[] {
  return addresses
    .filter(({ ifindex, address }) =>
      ifindex === index && !address.ip.isLinkLocal
    )
    .map(({ address }) => String(address));
}

/** Shows an attachment from the cache, because its namespace cannot be read. */
export function viewGone(
  attachment: NodeAttachment,
  isGone: boolean,
): InterfaceView {
  const { ips = [] } = resultOf(attachment) ?? {};
  return {
    name: attachment.ifName,
    kind: "",
    network: attachment.network,
    hostLink: null,
    isUp: true,
    mtu: null,
    mac: null,
    addresses: ips.map(({ address }) => String(address)),
    fromNetwork: null,
    claim: nameClaim(attachment),
    routes: [],
    vlans: [],
    limits: { ingress: null, egress: null },
    masquerade: null,
    hostAccess: null,
    portMaps: [],
    differences: isGone ? ["the namespace no longer exists"] : [],
  };
}

/** Names the IPAMClaim of an attachment. */
function nameClaim(attachment: NodeAttachment): string | null {
  const claim = findCachedClaim(attachment);
  return claim === undefined ? null : `${claim.namespace}/${claim.name}`;
}

/** Reads the interfaces of a namespace, and what each is connected to. */
export async function readInterfaces(
  host: Host,
  rtnl: Rtnl,
  attachments: readonly NodeAttachment[],
): Promise<Connected[]> {
  const { items: links } = rtnl.link.listSome();
  const addresses = rtnl.address.list();
  const routes = rtnl.route.list({ table: "any" })
    .filter(({ table }) => table !== Table.Local);
  const results = attachments.flatMap((one) => {
    const result = resultOf(one);
    return result === undefined ? [] : [{ one, result }];
  });
  const limits = new Limits(
    rtnl,
    new Map(links.map((link) => [link.index, link])),
  );
  const found: Connected[] = [];
  for (const link of links) {
    const attachment = findAttachment(link, attachments, results);
    const own = addresses.filter(({ ifindex }) => ifindex === link.index);
    const isIdle = attachment === undefined &&
      (link.name === "lo" || FALLBACK_LINKS.includes(link.name) ||
        link.kind === "ifb" ||
        link.kind === "" && !link.isUp);
    if (isIdle) continue;
    const live = {
      link,
      addresses: own,
      routes: routes.filter(({ ifindex }) => ifindex === link.index),
      limits: {
        ingress: limits.ofReceived(link.index),
        egress: limits.ofSent(link.index),
      },
    };
    const view = viewInterface(live, attachment, results);
    found.push(await connect(host, link, { attachment, view }));
  }
  const missing = attachments.filter(({ ifName, via }) =>
    !links.some(({ name }) => name === ifName) &&
    (via === undefined ||
      !attachments.some((one) => one.via !== via && one.ifName === ifName))
  );
  return found.concat(missing.map((one) => ({
    group: INSIDE,
    view: {
      ...viewGone(one, false),
      differences: ["the interface no longer exists"],
    },
  })));
}

/** A result and the attachment that it is of. */
interface Known {
  readonly one: NodeAttachment;
  readonly result: Result;
}

/**
 * Finds the attachment of an interface; the attachment of multus, which names the
 * network, comes first.
 */
function findAttachment(
  { name }: Link,
  attachments: readonly NodeAttachment[],
  results: readonly Known[],
): NodeAttachment | undefined {
  const own = attachments.filter(({ ifName }) => ifName === name);
  return own.find(({ via }) => via !== undefined) ?? own[0] ??
    results.find(({ result }) =>
      result.interfaces.some((one) => one.name === name && one.sandbox)
    )?.one;
}

function viewInterface(
  { link, addresses, routes, limits }:
    & Pick<InterfaceView, "limits">
    & {
      readonly link: Link;
      readonly addresses: readonly Address[];
      readonly routes: readonly Route[];
    },
  attachment: NodeAttachment | undefined,
  results: readonly Known[],
): InterfaceView {
  const result = results.find(({ one }) => one === attachment)?.result;
  const isConnected = ({ destination, gateway }: Route): boolean =>
    gateway === undefined &&
    (destination.ip.isLinkLocal || destination.ip.isMulticast ||
      addresses.some(({ address }) => address.masked().equals(destination)));
  return {
    name: link.name,
    kind: link.kind,
    network: attachment?.network ?? null,
    hostLink: null,
    isUp: link.isUp,
    mtu: link.mtu,
    mac: link.mac === undefined ? null : String(link.mac),
    addresses: formatAddresses(addresses, link),
    fromNetwork: null,
    claim: attachment === undefined ? null : nameClaim(attachment),
    routes: routes.filter((route) => !isConnected(route))
      .map(({ destination, gateway, table = Table.Main }) =>
        formatRoute(destination, gateway) +
        (table === Table.Main ? "" : ` table ${table}`)
      ),
    vlans: link.data?.kind === "vlan" ? [`${link.data.id}`] : [],
    limits,
    masquerade: null,
    hostAccess: null,
    portMaps: [],
    differences: result === undefined
      ? []
      : listDifferences(result, { link, addresses, routes }),
  };
}

/** Finds the host's link by which it reaches an interface on the same master. */
function findAccessLink(
  { rtnl, links }: Host,
  { kind, linkIndex }: Link,
  addresses: readonly string[],
): string | null {
  const ips = addresses.map((address) => Cidr.parse(address).ip);
  return [...links.values()].find((accessLink) =>
    isAccessLinkName(accessLink.name) && accessLink.kind === kind &&
    accessLink.linkIndex === linkIndex &&
    rtnl.route.list({ ifindex: accessLink.index }).some(({ destination }) =>
      ips.some((ip) => Cidr.host(ip).equals(destination))
    )
  )?.name ?? null;
}

/** Adds what the node does for an interface. */
async function connect(
  host: Host,
  link: Link,
  { attachment, view }: {
    readonly attachment: NodeAttachment | undefined;
    readonly view: InterfaceView;
  },
): Promise<Connected> {
  const { rtnl, links, limits, nat } = host;
  const end = links.get(link.linkIndex ?? 0);
  const isPair = link.kind === "veth" && end?.kind === "veth" &&
    end.linkIndex === link.index;
  const translated = attachment &&
    await nat({ ...attachment, ifName: link.name });
  const fromNetwork = attachment?.ifName === link.name
    ? await readNetworkAddresses(attachment)
    : null;
  const shown = { ...view, ...translated, fromNetwork };
  if (!isPair) {
    const isOnLink = end !== undefined && link.kind !== "veth";
    const hostAccess = findAccessLink(host, link, view.addresses);
    return {
      group: isOnLink ? end.name : INSIDE,
      view: { ...shown, hostAccess },
    };
  }
  const master = links.get(end.masterIndex ?? 0);
  return {
    group: master?.name ?? ROUTED,
    view: {
      ...shown,
      hostLink: end.name,
      differences: link.mtu === end.mtu
        ? view.differences
        : [...view.differences, `MTU ${link.mtu}, ${end.name} has ${end.mtu}`],
      vlans: master && filtersVlans(master) ? listVlans(rtnl, end) : view.vlans,
      limits: {
        ingress: limits.ofSent(end.index),
        egress: limits.ofReceived(end.index),
      },
    },
  };
}
