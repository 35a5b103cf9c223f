/**
 * The addresses of containers from which probes start, and their connection with the
 * node.
 *
 * @module
 */

import { findValue, type JsonObject } from "../../base/json/json.ts";
import { isMissingNetns } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Cidr } from "../../net/cidr.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import {
  isLoopbackOnly,
  listInterfaces,
  type NodeAttachment,
} from "../node/node_attachments.ts";
import { resultOf } from "../../libcni/cached_result.ts";
import { getTarget } from "../node/target.ts";
import {
  findHostSide,
  type HostSide,
  listCachedPlugins,
  nameAttachment,
} from "../node/live.ts";
import type { NodeReader } from "../node/node_reader.ts";
import type { PacketOrigin } from "./packet.ts";

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

/** An address of a container, and its connection with the node. */
export interface ProbeEndpoint extends HostSide {
  readonly start: Start;
  readonly origin: PacketOrigin;
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
function describeEndpoint(
  node: NodeReader,
  sandbox: Rtnl,
  start: Start,
  name = start.netns,
): ProbeEndpoint {
  const { attachment, ifName, address: { ip, family } } = start;
  const link = sandbox.link.find(ifName);
  const side = findHostSide(node, sandbox, link);
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
    isMasqueraded: plugins.some((conf) => isMasqueraded(conf, family)),
    hostLinks: [
      ...new Set(
        [side.hostEnd, side.entry].flatMap((link) => link?.name ?? []),
      ),
    ],
  };
}

/** Lists the addresses of a namespace: of its attachments, or of its interfaces. */
function listStarts(
  netns: string,
  attachments: readonly NodeAttachment[],
): Start[] {
  const networks = listInterfaces(attachments)
    .filter((attachment) => !isLoopbackOnly(attachment));
  const cached = networks.flatMap((attachment) =>
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

/** Reports whether the node has an address. */
export function isOnHost({ host }: Pick<NodeReader, "host">, ip: Ip): boolean {
  return host.address.list().some(({ address }) => address.ip.equals(ip));
}

/** Endpoints with their open namespaces. */
export class Endpoints implements Disposable {
  readonly #stack = new DisposableStack();
  readonly #node: NodeReader;
  /** All that were added. */
  readonly all: ProbeEndpoint[] = [];

  /** @param node Borrowed, not closed */
  constructor(node: NodeReader) {
    this.#node = node;
  }

  /**
   * Adds all addresses of a namespace.
   *
   * @param name The container's name if it is not in the cache
   * @throws {SyscallError} If the namespace cannot be opened
   */
  add(
    netns: string,
    attachments: readonly NodeAttachment[],
    name?: string,
  ): ProbeEndpoint[] {
    const sandbox = this.#stack.use(Rtnl.open(netns));
    const endpoints = listStarts(netns, attachments)
      .map((start) => describeEndpoint(this.#node, sandbox, start, name));
    this.all.push(...endpoints);
    return endpoints;
  }

  /**
   * Adds all addresses of a container or a namespace that a person names.
   *
   * @throws {Error} If it is unknown, cannot be opened, or has no address
   */
  addNamed(name: string): ProbeEndpoint[] {
    const { netns, attachments } = getTarget(name, this.#node.directories);
    if (netns === "") throw new Error(`The namespace of "${name}" is unknown`);
    let endpoints: ProbeEndpoint[];
    try {
      endpoints = this.add(netns, attachments, name);
    } catch (cause) {
      const reason = isMissingNetns(cause)
        ? ": its namespace no longer exists"
        : "";
      throw new Error(`Cannot inspect "${name}"${reason}`, { cause });
    }
    if (endpoints.length > 0) return endpoints;
    throw new Error(`"${name}" has no address: no plugin has attached it`);
  }

  /** Closes the namespaces. */
  [Symbol.dispose](): void {
    this.#stack[Symbol.dispose]();
  }
}

function isMasqueraded(conf: JsonObject, family: IpFamily): boolean {
  const families = findValue(conf, "ipMasqFamilies");
  return findValue(conf, "ipMasq") === true &&
    (!Array.isArray(families) || families.includes(family));
}
