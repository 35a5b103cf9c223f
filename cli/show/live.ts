/**
 * Reads the live state of a node's networks from the kernel.
 *
 * @module
 */

import { basename } from "@std/path/posix";
import { findFileId } from "../../cni/files/same_file.ts";
import type { Result } from "../../cni/result.ts";
import { isErrno } from "../../ffi/errno.ts";
import { CURRENT_NETNS, isMissingNetns } from "../../ffi/netns.ts";
import type { Address } from "../../ffi/rtnl/address.ts";
import { Table } from "../../ffi/rtnl/constants.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Route } from "../../ffi/rtnl/route.ts";
import { RuleRequests } from "../../ffi/rtnl/rule.ts";
import type { NodeAttachment } from "../attachments/node_attachments.ts";
import { pathOfName } from "../netns/named.ts";
import { formatRoute, listDifferences, resultOf } from "./differences.ts";
import { type FindNat, Limits, listVlans, readNat } from "./host.ts";
import type {
  GroupView,
  InterfaceView,
  NodeView,
  SandboxView,
  UplinkView,
} from "./model.ts";

/** A namespace to show, and its attachments. */
export interface Sandbox {
  readonly netns: string;
  readonly attachments: readonly NodeAttachment[];
}

/** Groups attachments by namespace; adds namespaces without any. */
export function listSandboxes(
  attachments: readonly NodeAttachment[],
  paths: readonly string[] = [],
): Sandbox[] {
  const found = new Map<string, Sandbox>();
  const host = findFileId(CURRENT_NETNS);
  for (const attachment of attachments) {
    const { netns, containerId } = attachment;
    const id = findFileId(netns) ?? (netns || containerId);
    const { attachments = [] } = found.get(id) ?? {};
    found.set(id, { netns, attachments: [...attachments, attachment] });
  }
  for (const netns of paths) {
    const id = findFileId(netns) ?? netns;
    if (!found.has(id) && id !== host) {
      found.set(id, { netns, attachments: [] });
    }
  }
  return [...found.values()];
}

/** An interface, and what of the node it is connected to. */
interface Connected {
  readonly group: string;
  readonly view: InterfaceView;
}

/** The state of the node's own namespace. */
class Host implements Disposable {
  readonly rtnl: Rtnl;
  readonly links: ReadonlyMap<number, Link>;
  readonly addresses: readonly Address[];
  readonly limits: Limits;
  readonly nat: FindNat;

  constructor(netns: string) {
    this.rtnl = Rtnl.open(netns);
    const options = { mayBeIncomplete: true };
    const links = this.rtnl.link.list(options);
    this.links = new Map(links.map((link) => [link.index, link]));
    this.addresses = this.rtnl.address.list();
    this.limits = new Limits(this.rtnl, this.links);
    this.nat = readNat(netns);
  }

  [Symbol.dispose](): void {
    this.rtnl[Symbol.dispose]();
  }
}

/** Links that every namespace may have, because of loaded modules. */
const FALLBACK =
  /^(lo|tunl0|sit0|gre0|gretap0|erspan0|ip6tnl0|ip6gre0|ip_vti0|ip6_vti0)$/;

/**
 * Reads the node's state.
 *
 * @param hostNetns Path of the node's own namespace
 * @throws {SyscallError} If that cannot be read
 */
export async function readNode(
  sandboxes: readonly Sandbox[],
  hostNetns: string = CURRENT_NETNS,
): Promise<NodeView> {
  using host = new Host(hostNetns);
  const groups = new Map<string, SandboxView[]>();
  const usedPorts = new Set<string>();
  for (const sandbox of sandboxes) {
    for (const [group, view] of await readSandbox(host, sandbox)) {
      groups.set(group, [...groups.get(group) ?? [], view]);
      for (const { hostLink } of view.interfaces) {
        if (hostLink !== null) usedPorts.add(hostLink);
      }
    }
  }
  const views = [...groups].map(([name, sandboxes]) =>
    viewGroup(host, { name, sandboxes, usedPorts })
  );
  return {
    node: Deno.hostname(),
    uplinks: listUplinks(host),
    groups: views.sort((left, right) => rank(left) - rank(right)),
  };
}

function rank({ kind }: GroupView): number {
  return ["none", "routed"].includes(kind) ? 1 : 0;
}

/** Names of groups that are not links. No link's name contains a blank. */
const ROUTED = "routed by the node", INSIDE = "not connected to the node";

function viewGroup(
  { links, addresses }: Host,
  { name, sandboxes, usedPorts }: {
    readonly name: string;
    readonly sandboxes: readonly SandboxView[];
    readonly usedPorts: ReadonlySet<string>;
  },
): GroupView {
  const link = [...links.values()].find((one) => one.name === name);
  const kind = name === ROUTED
    ? "routed"
    : name === INSIDE || link === undefined
    ? "none"
    : link.kind || "uplink";
  return {
    name,
    kind,
    isUp: link?.isUp ?? true,
    mtu: link?.mtu ?? null,
    addresses: link === undefined ? [] : formatAddresses(addresses, link),
    hasVlanFiltering: link?.hasVlanFiltering ?? false,
    foreignPorts: [...links.values()]
      .filter((port) => link && port.masterIndex === link.index)
      .map((port) => port.name)
      .filter((port) => !usedPorts.has(port)),
    sandboxes,
  };
}

function listUplinks({ rtnl, links, addresses }: Host): UplinkView[] {
  const defaults = rtnl.route.list()
    .filter(({ destination }) => destination.prefixLength === 0);
  return [...new Set(defaults.map(({ ifindex }) => ifindex))]
    .flatMap((ifindex) => {
      const link = links.get(ifindex ?? 0);
      if (link === undefined) return [];
      const gateways = defaults.filter((one) => one.ifindex === ifindex)
        .flatMap(({ gateway }) => gateway === undefined ? [] : `${gateway}`);
      return [{
        name: link.name,
        addresses: formatAddresses(addresses, link),
        gateways,
      }];
    });
}

function formatAddresses(
  addresses: readonly Address[],
  { index }: Link,
): string[] {
  return addresses
    .filter(({ ifindex, address }) =>
      ifindex === index && !address.ip.isLinkLocal
    )
    .map(({ address }) => String(address));
}

/** Reads one namespace; returns its part of each group. */
async function readSandbox(
  host: Host,
  sandbox: Sandbox,
): Promise<Map<string, SandboxView>> {
  const { attachments, netns } = sandbox;
  const shown = viewSandbox(sandbox);
  const opened = open(netns);
  if (!(opened instanceof Rtnl)) {
    const interfaces = attachments
      .filter(({ via, ifName }, _, all) =>
        via === undefined ||
        !all.some((one) => one.via === undefined && one.ifName === ifName)
      )
      .map((one) => viewGone(one, opened === false));
    return new Map([[INSIDE, { ...shown, exists: opened, interfaces }]]);
  }
  using rtnl = opened;
  const groups = new Map<string, SandboxView>();
  const rules = new RuleRequests(rtnl.socket).list()
    .filter(({ priority }) => ![0, 32766, 32767].includes(priority))
    .map(({ priority, source, table }) =>
      `${priority}: from ${source} lookup ${table}`
    );
  const connected = await readInterfaces(host, rtnl, attachments);
  if (connected.length === 0) {
    return new Map([[INSIDE, { ...shown, rules, exists: true }]]);
  }
  for (const { group, view } of connected) {
    const { interfaces = [] } = groups.get(group) ?? {};
    groups.set(group, {
      ...shown,
      rules: groups.size === 0 || groups.has(group) ? rules : [],
      interfaces: [...interfaces, view],
    });
  }
  return groups;
}

/** Opens a namespace; false if it does not exist, null if it cannot be read. */
function open(netns: string): Rtnl | false | null {
  if (netns === "") return null;
  try {
    return Rtnl.open(netns);
  } catch (error) {
    if (isMissingNetns(error)) return false;
    if (isErrno(error, "EPERM", "EACCES")) return null;
    throw error;
  }
}

function viewSandbox({ netns, attachments }: Sandbox): SandboxView {
  const name = basename(netns);
  const ids = attachments.map(({ containerId }) => containerId);
  const isNamed = name !== "" && netns === pathOfName(name);
  return {
    pod: attachments.find(({ pod }) => pod)?.pod ?? null,
    name: (isNamed ? name : netns) || ids[0] || "",
    netns,
    containerIDs: [...new Set(ids)],
    exists: true,
    isForeign: attachments.length === 0,
    rules: [],
    interfaces: [],
  };
}

/** Shows an attachment whose namespace cannot be read, from the cache. */
function viewGone(attachment: NodeAttachment, isGone: boolean): InterfaceView {
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
    routes: [],
    vlans: [],
    limits: { ingress: null, egress: null },
    masquerade: false,
    portMaps: [],
    differences: isGone ? ["the namespace is gone"] : [],
  };
}

async function readInterfaces(
  host: Host,
  rtnl: Rtnl,
  attachments: readonly NodeAttachment[],
): Promise<Connected[]> {
  const links = rtnl.link.list({ mayBeIncomplete: true });
  const addresses = rtnl.address.list();
  const routes = rtnl.route.list({ table: "any" })
    .filter(({ table }) => table !== Table.Local);
  const results = attachments.flatMap((one) => {
    const result = resultOf(one);
    return result === undefined ? [] : [{ one, result }];
  });
  const found: Connected[] = [];
  for (const link of links) {
    const attachment = findAttachment(link, attachments, results);
    const own = addresses.filter(({ ifindex }) => ifindex === link.index);
    const isIdle = attachment === undefined &&
      (FALLBACK.test(link.name) || link.kind === "" && !link.isUp);
    if (isIdle) continue;
    const live = {
      link,
      addresses: own,
      routes: routes.filter(({ ifindex }) => ifindex === link.index),
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
    view: { ...viewGone(one, false), differences: ["the interface is gone"] },
  })));
}

/** A result and the attachment that it is of. */
interface Known {
  readonly one: NodeAttachment;
  readonly result: Result;
}

/** Finds the attachment of an interface; the one of multus, which knows the network, comes first. */
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
  { link, addresses, routes }: {
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
    routes: routes.filter((route) => !isConnected(route))
      .map(({ destination, gateway, table = Table.Main }) =>
        formatRoute(destination, gateway) +
        (table === Table.Main ? "" : ` table ${table}`)
      ),
    vlans: link.vlanId === undefined ? [] : [`${link.vlanId}`],
    limits: { ingress: null, egress: null },
    masquerade: false,
    portMaps: [],
    differences: result === undefined
      ? []
      : listDifferences(result, { link, addresses, routes }),
  };
}

/** Adds what the node does for an interface. */
async function connect(
  { rtnl, links, limits, nat }: Host,
  link: Link,
  { attachment, view }: {
    readonly attachment: NodeAttachment | undefined;
    readonly view: InterfaceView;
  },
): Promise<Connected> {
  const end = links.get(link.linkIndex ?? 0);
  const isCable = link.kind === "veth" && end?.kind === "veth" &&
    end.linkIndex === link.index;
  const translated = attachment &&
    await nat({ ...attachment, ifName: link.name });
  const shown = { ...view, ...translated };
  if (!isCable) {
    const isOnLink = end !== undefined && link.kind !== "veth";
    return { group: isOnLink ? end.name : INSIDE, view: shown };
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
      vlans: master?.hasVlanFiltering ? listVlans(rtnl, end) : view.vlans,
      limits: {
        ingress: limits.ofSent(end.index),
        egress: limits.ofReceived(end.index),
      },
    },
  };
}
