/**
 * The addresses of containers, how each is connected with the node, and the path of
 * the packets that leave from there.
 *
 * @module
 */

import { shell } from "../../../base/command_line/shell.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import {
  type NetworkTopology,
  valueOf,
} from "../../../metadata/plugin_metadata.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Lookup } from "../../../ffi/rtnl/route.ts";
import type { Cidr } from "../../../net/cidr.ts";
import { Ip, type IpFamily } from "../../../net/ip.ts";
import { METADATA } from "../../../plugins/lists/metadata.ts";
import {
  listInterfaces,
  type NodeAttachment,
} from "../../attachments/node_attachments.ts";
import type { Origin } from "../../probe/packet.ts";
import type { More } from "../finding.ts";
import {
  findHostSide,
  type HostSide,
  listCachedPlugins,
  nameAttachment,
  resultOf,
} from "../live.ts";
import type { Node } from "../node.ts";

/**
 * A destination far away. Nothing is sent to it; only routes are looked up.
 *
 * Source: RFC 5737, RFC 3849.
 */
export const FAR: Readonly<Record<IpFamily, Ip>> = {
  4: Ip.parse("203.0.113.1"),
  6: Ip.parse("2001:db8:ffff::1"),
};

/** The address at which packets of a container start. */
export interface Start {
  /** Path of the container's namespace. */
  readonly netns: string;
  readonly ifName: string;
  /** The address, with the prefix length of ADD. */
  readonly address: Cidr;
  /** Undefined if it is not in the cache. */
  readonly attachment: NodeAttachment | undefined;
}

/** An address of a container, and how it is connected with the node. */
export interface Endpoint extends HostSide {
  readonly start: Start;
  readonly origin: Origin;
  /** Name of its network; "" if the network is unknown. */
  readonly network: string;
  /** The plugins that attached it. */
  readonly plugins: readonly JsonObject[];
  /** Its interface; undefined if that does not exist. */
  readonly link: Link | undefined;
  /** Its router according to ADD or, without a result of ADD, to its routes. */
  readonly gateway: Ip | undefined;
  /** Whether the node is its router. */
  readonly isRouted: boolean;
  /** Whether it has a default route of its own, as far as known. */
  readonly hasDefault: boolean;
  /** Whether ADD added any route of its family. */
  readonly hasRoutes: boolean;
  /** Whether the node replaces the source address of its packets. */
  readonly isMasqueraded: boolean;
  /** Names of the links on the host that its packets pass: its end, its bridge. */
  readonly hostLinks: readonly string[];
}

/**
 * Describes an address of a container, as the kernel and the cache have it.
 *
 * @param sandbox The container's namespace, borrowed for as long as packets start there
 * @param name The container's name if it is not in the cache
 */
export function describeEndpoint(
  node: Node,
  sandbox: Rtnl,
  start: Start,
  name = start.netns,
): Endpoint {
  const { attachment, ifName, address: { ip, family } } = start;
  const link = sandbox.link.find(ifName);
  const side = findHostSide(node, link);
  const result = attachment && resultOf(attachment);
  const plugins = attachment === undefined ? [] : listCachedPlugins(attachment);
  const defaults = sandbox.route.list({ family })
    .filter(({ destination }) => destination.prefixLength === 0);
  const gateway =
    result?.ips.find(({ address }) => address.ip.equals(ip))?.gateway ??
      defaults.find(({ ifindex }) => ifindex === link?.index)?.gateway;
  const routes = result?.routes.filter(({ dst }) => dst.family === family);
  return {
    ...side,
    start,
    origin: {
      name: attachment === undefined
        ? `${name} ${ifName}`
        : nameAttachment(attachment),
      netns: sandbox.netns,
      source: ip,
    },
    network: attachment?.network ?? "",
    plugins,
    link,
    gateway,
    isRouted: gateway !== undefined && isOnHost(node, gateway),
    hasDefault: routes === undefined
      ? defaults.length > 0
      : routes.some(({ dst }) => dst.prefixLength === 0),
    hasRoutes: (routes ?? []).length > 0,
    isMasqueraded: plugins.some((conf) => valueOf(conf, "ipMasq") === true),
    hostLinks: [
      ...new Set(
        [side.hostEnd, side.entry].flatMap((link) => link?.name ?? []),
      ),
    ],
  };
}

/** Lists the addresses of a namespace: of its attachments, or of its interfaces. */
export function listStarts(
  netns: string,
  attachments: readonly NodeAttachment[],
): Start[] {
  const cached = listInterfaces(attachments).flatMap((attachment) =>
    (resultOf(attachment)?.ips ?? []).map(({ address }) => ({
      netns: attachment.netns,
      ifName: attachment.ifName,
      address,
      attachment,
    }))
  );
  return cached.length > 0 ? cached : listUncached(netns);
}

/** Lists the addresses of a namespace that no runtime has in its cache. */
function listUncached(netns: string): Start[] {
  using rtnl = Rtnl.open(netns);
  const links = rtnl.link.list();
  return rtnl.address.list().flatMap(({ ifindex, address }) => {
    const link = links.find(({ index }) => index === ifindex);
    const { ip } = address;
    if (link === undefined || ip.isLoopback || ip.isLinkLocal) return [];
    return [{ netns, ifName: link.name, address, attachment: undefined }];
  });
}

/** What ends a path, or leads packets to a different interface. */
export interface Stop extends Pick<More, "command" | "advice" | "look"> {
  /** The evidence, without a full stop. */
  readonly text: string;
  /** The interface that packets take instead of their own. */
  readonly takes?: string;
  /** Whether it ends packets of all containers. */
  readonly isOfNode?: boolean;
}

/** The rest of the path is not on this node. */
export const LEAVES = "leaves";

/** What a step finds; undefined if packets pass, or if the step does not apply. */
export type Outcome = Stop | typeof LEAVES | undefined;

/** A part of the path. */
export interface Step {
  readonly name: string;
  readonly run: (path: Path) => Outcome | Promise<Outcome>;
}

/** The path of packets from a container to the outside. */
export class Path implements Disposable {
  readonly node: Node;
  /** The container's namespace. */
  readonly sandbox: Rtnl;
  readonly end: Endpoint;
  /** The route in the container, once it was looked up. */
  route: Lookup | undefined;

  /** @throws {SyscallError} If the namespace cannot be opened */
  constructor(node: Node, start: Start) {
    this.node = node;
    this.sandbox = Rtnl.open(start.netns);
    this.end = describeEndpoint(node, this.sandbox, start);
  }

  /** The address family. */
  get family(): IpFamily {
    return this.end.start.address.family;
  }

  /** Formats a command that runs in the container's namespace. */
  inSandbox(command: string): string {
    return shell`nsenter --net=${this.end.start.netns} ` + command;
  }

  /** Closes the namespace. */
  [Symbol.dispose](): void {
    this.sandbox[Symbol.dispose]();
  }
}

/** Reports whether the node has an address. */
export function isOnHost({ host }: Pick<Node, "host">, ip: Ip): boolean {
  return host.address.list().some(({ address }) => address.ip.equals(ip));
}

/** Writes a command of `ip` for a family, which is named only for IPv6. */
export function inFamily(family: IpFamily, command: string): string {
  return family === 4 ? command : command.replace(/^ip /, "ip -6 ");
}

/** Returns how a plugin of this project connects containers; undefined for others. */
export function networkOf({ type }: JsonObject): NetworkTopology | undefined {
  return METADATA.get(String(type))?.network;
}
