/**
 * Lists the probes of a container: the destinations that it must reach, and the senders
 * that must reach it. Nothing is sent to addresses other than those of the node, its
 * router, its name server and its containers.
 *
 * @module
 */

import { ifPossible, readTextFile } from "../../base/files/io.ts";
import { findValue, objectOf } from "../../base/json/json.ts";
import { readUntrusted } from "../../ffi/file/untrusted_file.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import { parseResolvConf } from "../../ipam/host_local/inspect.ts";
import { type NodeReader, oncePerNode } from "../node/node_reader.ts";
import { resultOf } from "../../libcni/cached_result.ts";
import { listRouters, listUplinks } from "../node/routers.ts";
import type { ProbeEndpoint } from "./endpoint.ts";
import type { OutsideClient } from "./outside.ts";
import { DNS_PORT, type PacketOrigin, type Probe } from "./packet.ts";
import { listMappings, portsOf } from "../../plugins/portmap/inspect.ts";

/** The end of a probe that is not the container. */
export type ProbeKind =
  | "gateway"
  | "node"
  | "back"
  | "peer"
  | "outside"
  | "name server"
  | "host port"
  | "named";

/** A probe for a container. */
export interface Wanted {
  readonly probe: Probe;
  readonly kind: ProbeKind;
  /** The container under test. */
  readonly subject: ProbeEndpoint;
  /** The other container, if the probe has two. */
  readonly peer?: ProbeEndpoint | undefined;
  /** The sender of a traced packet, if it differs; that sender gets the answer. */
  readonly tracedFrom?: PacketOrigin | undefined;
}

/** A port that most firewalls forward. */
const HTTPS_PORT = 443;

/** Returns the node as the sender of packets to an address; undefined without a route. */
export function originOfNode(
  node: NodeReader,
  destination: Ip,
): PacketOrigin | undefined {
  const found = ifPossible(() => node.host.route.lookUp({ destination }));
  const { source } = found ?? {};
  return source && { name: "the node", netns: node.host.netns, source };
}

/** A probe without its ends. */
type Shape = Omit<Probe, "from" | "to" | "destination">;

const PING: Shape = { protocol: "ping" };

/** Lists probes from a container, and from the node to the container. */
export function listWanted(
  node: NodeReader,
  subject: ProbeEndpoint,
  peer: ProbeEndpoint | undefined,
): Wanted[] {
  const { origin, start: { address }, gateway, isRouted, hasDefault } = subject;
  const { ip, family } = address;
  const wanted: Wanted[] = [];
  const add = (
    kind: ProbeKind,
    to: string,
    destination: Ip,
    shapes: readonly Shape[],
    ends: Pick<Wanted, "peer"> & { readonly from?: PacketOrigin } = {},
  ): void => {
    // A probe does not name the link that a link-local destination of IPv6 needs.
    if (destination.family === 6 && destination.isLinkLocal) return;
    const { from = origin, peer } = ends;
    for (const shape of shapes) {
      const probe = { from, to, destination, ...shape };
      wanted.push({ kind, subject, peer, probe });
    }
  };
  const pings = [PING, { ...PING, length: subject.link?.mtu }];
  // The kernel uses a cached MAC even if no host answers ARP for it any longer.
  const { index, mac, hasArp } = subject.link ?? {};
  const arp: readonly Shape[] =
    hasArp && index !== undefined && mac !== undefined && family === 4
      ? [{ protocol: "arp", link: { index, mac } }]
      : [];
  if (gateway !== undefined && (hasDefault || address.contains(gateway))) {
    if (isRouted || hasDefault) add("gateway", GATEWAY, gateway, pings);
    if (isRouted) {
      add("gateway", GATEWAY, gateway, [...arp, { protocol: "tcp" }]);
      const from = originOfNode(node, ip);
      if (from !== undefined) add("back", origin.name, ip, pings, { from });
      const [own] = hasDefault ? listOwn(node, family) : [];
      if (own !== undefined) add("node", "the node", own, [PING]);
    }
  }
  if (peer !== undefined) {
    const { start, link } = peer;
    const length = Math.min(subject.link?.mtu ?? 0, link?.mtu ?? 0);
    const [, bridge] = subject.hostLinks;
    const isNear = bridge !== undefined && peer.hostLinks.includes(bridge);
    add("peer", peer.origin.name, start.address.ip, [
      PING,
      { ...PING, length: length || undefined },
      { protocol: "tcp" },
      ...isNear ? arp : [],
    ], { peer });
  }
  if (!hasDefault || !isRouted) return wanted;
  for (const router of listRouters(node, family)) {
    add("outside", "the node's router", router, [
      ...pings,
      { protocol: "tcp", port: HTTPS_PORT },
      { protocol: "udp", port: DNS_PORT },
    ]);
  }
  for (const server of listNameServers(node, subject)) {
    if (server.family !== family) continue;
    add("name server", "its name server", server, [
      { protocol: "dns" },
      { protocol: "tcp", port: DNS_PORT },
    ]);
  }
  return wanted;
}

const GATEWAY = "its gateway";

/**
 * Lists probes to a destination that the user named.
 *
 * @param subject The container at either end
 * @param sender The container that sends, if it is not the subject
 */
export function listNamedProbes(
  from: PacketOrigin,
  subject: ProbeEndpoint,
  to: string,
  { address, port }: {
    readonly address: Ip;
    readonly port: number | undefined;
  },
  sender?: ProbeEndpoint,
): Wanted[] {
  const length = (sender ?? subject).link?.mtu;
  const shapes: readonly Shape[] = port === undefined
    ? [PING, { ...PING, length }]
    : port === DNS_PORT
    ? [{ protocol: "tcp", port }, { protocol: "dns", port }]
    : [{ protocol: "tcp", port }];
  return shapes.map((one) => ({
    kind: "named",
    subject,
    peer: sender,
    probe: { from, to, destination: address, ...one },
  }));
}

/** Lists the node's own addresses on its uplinks. A tentative address does not answer yet. */
function listOwn(node: NodeReader, family: IpFamily): Ip[] {
  return listUplinks(node).flatMap(({ index }) =>
    node.host.address.list({ ifindex: index, family })
  ).filter(({ isTentative, address: { ip } }) =>
    !isTentative && !ip.isLinkLocal
  )
    .map(({ address }) => address.ip);
}

/** Reports whether a container was attached with host ports. */
export function hasHostPorts(
  { start: { attachment }, plugins }: ProbeEndpoint,
): boolean {
  // multus offers the pod's ports to every network.
  return Array.isArray(attachment?.capabilityArgs["portMappings"]) &&
    plugins.some((conf) =>
      objectOf(findValue(conf, "capabilities"))["portMappings"] === true
    );
}

/** Lists probes from outside to the host ports of a container. */
export function listHostPorts(
  node: NodeReader,
  subject: ProbeEndpoint,
  client: OutsideClient,
): Wanted[] {
  const { attachment, address } = subject.start;
  if (!hasHostPorts(subject)) return [];
  const { family } = address.ip;
  const [own] = listOwn(node, family);
  const ports = portsOf({
    addresses: [address],
    mappings: listMappings(attachment?.capabilityArgs ?? {}),
  });
  return ports.flatMap(({ hostIp: destination = own, hostPort, protocol }) => {
    if (destination === undefined || destination.isLoopback) return [];
    if (protocol === "sctp") return [];
    return [{
      kind: "host port" as const,
      subject,
      tracedFrom: family === 4 ? client.byUplink : undefined,
      probe: {
        from: client.origin(family),
        to: `port ${hostPort} of the node, for ${subject.origin.name}`,
        destination,
        protocol,
        port: hostPort,
      },
    }];
  });
}

/**
 * Lists the name servers of a container: from the resolv.conf of one of its processes
 * or, without a process, from its network or the node.
 */
function listNameServers(node: NodeReader, subject: ProbeEndpoint): Ip[] {
  const { attachment, netns } = subject.start;
  const own = findProcess(node, netns);
  const ofNetwork = attachment && resultOf(attachment)?.dns.nameservers || [];
  const texts = own !== undefined
    ? readServers(
      `${node.proc}/${own}/root/etc/resolv.conf`,
      readUntrusted,
    )
    : ofNetwork.length > 0
    ? ofNetwork
    // Without masquerading, the node's name servers might have no route back.
    : !subject.isMasqueraded
    ? []
    // A stub resolver of the node answers only the node.
    : readServers(node.resolvConf).filter((text) => !text.startsWith("127."));
  return texts.flatMap((text) => ifPossible(() => Ip.parse(text)) ?? [])
    .slice(0, 1);
}

function readServers(
  path: string,
  read: (path: string) => string = readTextFile,
): readonly string[] {
  return parseResolvConf(ifPossible(() => read(path)) ?? "").nameservers;
}

/** Finds a process in a namespace that is not the node's. */
function findProcess(node: NodeReader, netns: string): string | undefined {
  const file = ifPossible(() => Deno.statSync(netns));
  return file && listProcesses(node).get(`${file.dev} ${file.ino}`);
}

/** Lists one process of each network namespace. */
const listProcesses = oncePerNode(({ proc }) => {
  const pids = new Map<string, string>();
  for (const { name } of ifPossible(() => [...Deno.readDirSync(proc)]) ?? []) {
    if (!/^\d+$/.test(name)) continue;
    const file = ifPossible(() => Deno.statSync(`${proc}/${name}/ns/net`));
    const key = `${file?.dev} ${file?.ino}`;
    if (file !== undefined && !pids.has(key)) pids.set(key, name);
  }
  return pids;
});
