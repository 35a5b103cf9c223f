/**
 * What a container must be able to reach, and who must reach it. Nothing is sent to
 * an address that is not the node's, its router's, its name server's or a container's.
 *
 * @module
 */

import { ifPossible, readTextFile } from "../../base/files/io.ts";
import { objectOf } from "../../base/json/json.ts";
import { decodeResult } from "../../cni/result/decoding.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import { parseResolvConf } from "../../ipam/host_local/inspect.ts";
import type { Node } from "../doctor/node.ts";
import { listUplinks } from "../doctor/subnets.ts";
import type { Endpoint } from "./endpoint.ts";
import { DNS_PORT, type Origin, type Probe } from "./packet.ts";

/** Where a probe goes to, or comes from. */
export type Kind =
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
  readonly kind: Kind;
  /** The container that it is about. */
  readonly subject: Endpoint;
  /** The other container, if there is one. */
  readonly peer?: Endpoint | undefined;
}

/** A port that forwarding rules let through, if any. */
const HTTPS_PORT = 443;

/** Returns where the node's own packets to an address start; undefined without a route. */
export function originOfNode(node: Node, destination: Ip): Origin | undefined {
  const found = ifPossible(() => node.host.route.lookUp({ destination }));
  const { source } = found ?? {};
  return source && { name: "the node", netns: node.host.netns, source };
}

/** Lists what a container must reach, and the node's way to it. */
export function listWanted(
  node: Node,
  subject: Endpoint,
  peer: Endpoint | undefined,
  nameServers: readonly Ip[],
): Wanted[] {
  const { origin: from, start: { address: { ip } }, gateway } = subject;
  const whole = subject.link?.mtu;
  const wanted: Wanted[] = [];
  const add = (kind: Kind, probe: Omit<Probe, "from"> & Partial<Probe>): void =>
    void wanted.push({ kind, subject, probe: { from, ...probe } });
  const ping = (kind: Kind, to: string, destination: Ip): void => {
    add(kind, { to, destination, protocol: "ping" });
    add(kind, { to, destination, protocol: "ping", length: whole });
  };
  const isUsed = subject.hasDefault ||
    gateway !== undefined && subject.start.address.contains(gateway);
  if (
    gateway !== undefined && isUsed && (subject.isRouted || subject.hasDefault)
  ) {
    ping("gateway", "its gateway", gateway);
  }
  // An answer that is known already would hide that there is none any more, and a
  // question that the kernel has asked is not asked again so soon.
  const { index, mac, hasArp } = subject.link ?? {};
  const link =
    hasArp && index !== undefined && mac !== undefined && ip.family === 4
      ? { index, mac }
      : undefined;
  if (gateway !== undefined && isUsed && subject.isRouted && link) {
    const to = { to: "its gateway", destination: gateway };
    add("gateway", { ...to, protocol: "arp", link });
  }
  if (subject.isRouted && isUsed && gateway !== undefined) {
    add("gateway", {
      to: "its gateway",
      destination: gateway,
      protocol: "tcp",
    });
    const back = originOfNode(node, ip);
    if (back !== undefined) {
      const to = { to: from.name, destination: ip, protocol: "ping" } as const;
      add("back", { ...to, from: back });
      add("back", { ...to, from: back, length: whole });
    }
    const [own] = listOwn(node, ip.family);
    if (own !== undefined && subject.hasDefault) {
      add("node", { to: "the node", destination: own, protocol: "ping" });
    }
  }
  if (peer !== undefined) {
    const destination = peer.start.address.ip;
    const to = peer.origin.name;
    const length = Math.min(whole ?? 0, peer.link?.mtu ?? 0) || undefined;
    const [, bridge] = subject.hostLinks;
    const isNear = bridge !== undefined && peer.hostLinks.includes(bridge);
    for (
      const more of [
        { protocol: "ping" },
        { protocol: "ping", length },
        { protocol: "tcp" },
        ...isNear && link ? [{ protocol: "arp", link } as const] : [],
      ] as const
    ) {
      const probe = { from, to, destination, ...more };
      wanted.push({ kind: "peer", subject, peer, probe });
    }
  }
  if (!subject.hasDefault || !subject.isRouted) return wanted;
  for (const router of listRouters(node, ip.family)) {
    const to = { to: "the node's router", destination: router };
    ping("outside", to.to, router);
    add("outside", { ...to, protocol: "tcp", port: HTTPS_PORT });
    add("outside", { ...to, protocol: "udp", port: DNS_PORT });
  }
  for (const destination of nameServers) {
    if (destination.family !== ip.family) continue;
    const to = { to: "its name server", destination };
    add("name server", { ...to, protocol: "dns" });
    add("name server", { ...to, protocol: "tcp", port: DNS_PORT });
  }
  return wanted;
}

/**
 * Lists probes of a destination that somebody named.
 *
 * @param subject The container that they are about, at either end
 * @param sender The container that sends, if it is another one
 */
export function listNamed(
  from: Origin,
  subject: Endpoint,
  to: string,
  { address, port }: {
    readonly address: Ip;
    readonly port: number | undefined;
  },
  sender?: Endpoint,
): Wanted[] {
  const length = (sender ?? subject).link?.mtu;
  const probes: Omit<Probe, "from" | "to" | "destination">[] =
    port === undefined
      ? [{ protocol: "ping" }, { protocol: "ping", length }]
      : port === DNS_PORT
      ? [{ protocol: "tcp", port }, { protocol: "dns", port }]
      : [{ protocol: "tcp", port }];
  return probes.map((one) => ({
    kind: "named",
    subject,
    peer: sender,
    probe: { from, to, destination: address, ...one },
  }));
}

/** Lists the node's own addresses on its uplinks. */
function listOwn(node: Node, family: IpFamily): Ip[] {
  return listUplinks(node).flatMap(({ index }) =>
    node.host.address.list({ ifindex: index, family })
      .map(({ address }) => address.ip)
  ).filter((one) => !one.isLinkLocal);
}

/** Lists the routers of the node's default route. */
export function listRouters(node: Node, family: IpFamily): Ip[] {
  const uplinks = listUplinks(node).map(({ index }) => index);
  const routes = node.host.route.list({ family }).filter((one) =>
    one.destination.prefixLength === 0 && one.gateway !== undefined &&
    (family === 6 || uplinks.includes(one.ifindex ?? 0))
  );
  const [first] = routes
    .sort((left, right) => (left.priority ?? 0) - (right.priority ?? 0))
    .flatMap(({ gateway }) => gateway ?? []);
  return first === undefined ? [] : [first];
}

/** Lists ports of the node that lead to a container, from outside. */
export function listHostPorts(
  node: Node,
  subject: Endpoint,
  originOf: (family: IpFamily) => Origin,
): Wanted[] {
  const { attachment, address: { ip: { family } } } = subject.start;
  const { portMappings } = attachment?.capabilityArgs ?? {};
  const [own] = listOwn(node, family);
  return (Array.isArray(portMappings) ? portMappings : []).flatMap((one) => {
    const { hostPort, protocol = "tcp", hostIP } = objectOf(one);
    const given = ifPossible(() => Ip.parse(String(hostIP)));
    const isAny = given === undefined ||
      ["0.0.0.0", "::"].includes(String(given));
    const destination = isAny ? own : given;
    const kind = String(protocol).toLowerCase();
    if (destination?.family !== family || destination.isLoopback) return [];
    if (kind !== "tcp" && kind !== "udp") return [];
    if (typeof hostPort !== "number" || hostPort === 0) return [];
    return [{
      kind: "host port" as const,
      subject,
      probe: {
        from: originOf(family),
        to: `port ${hostPort} of the node, for ${subject.origin.name}`,
        destination,
        protocol: kind as "tcp" | "udp",
        port: hostPort,
      },
    }];
  });
}

/**
 * Lists the name servers of a container: those in the file of one of its processes,
 * else those of its network, else the node's.
 */
export function listNameServers(
  node: Node,
  subject: Endpoint,
  resolvConf: string,
): Ip[] {
  const { attachment, netns } = subject.start;
  const own = findProcess(node, netns);
  const result = ifPossible(() => decodeResult(attachment?.result ?? {}));
  const ofNetwork = result?.dns.nameservers ?? [];
  const texts = own !== undefined
    ? readServers(`${node.proc}/${own}/root/etc/resolv.conf`)
    : ofNetwork.length > 0
    ? ofNetwork
    // Without masquerading, the node's servers may have no way back.
    : !subject.isMasqueraded
    ? []
    // The node's own stub listens for the node alone.
    : readServers(resolvConf).filter((text) => !text.startsWith("127."));
  return texts.flatMap((text) => ifPossible(() => Ip.parse(text)) ?? [])
    .slice(0, 1);
}

function readServers(path: string): readonly string[] {
  return parseResolvConf(ifPossible(() => readTextFile(path)) ?? "")
    .nameservers;
}

const PROCESSES = new WeakMap<Node, ReadonlyMap<string, string>>();

/** Finds a process in a namespace that is not the node's. */
function findProcess(node: Node, netns: string): string | undefined {
  const known = PROCESSES.get(node) ?? listProcesses(node.proc);
  PROCESSES.set(node, known);
  const file = ifPossible(() => Deno.statSync(netns));
  return file && known.get(`${file.dev} ${file.ino}`);
}

/** Lists one process of each network namespace. */
function listProcesses(proc: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const { name } of ifPossible(() => [...Deno.readDirSync(proc)]) ?? []) {
    if (!/^\d+$/.test(name)) continue;
    const file = ifPossible(() => Deno.statSync(`${proc}/${name}/ns/net`));
    const key = `${file?.dev} ${file?.ino}`;
    if (file !== undefined && !found.has(key)) found.set(key, name);
  }
  return found;
}
