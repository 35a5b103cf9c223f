/**
 * The interfaces of running containers, as the kernel has them.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { isObject, type JsonObject, parseJson } from "../../base/json/json.ts";
import { isBridge, type Link } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { decodePluginConfs } from "../../libcni/conf.ts";
import type { Cidr } from "../../net/cidr.ts";
import { unfoldChains } from "./chain_form.ts";
import type { NodeAttachment } from "./node_attachments.ts";
import { resultOf } from "../../libcni/cached_result.ts";
import { shortenId } from "./target.ts";
import { type NodeReader, oncePerNode } from "./node_reader.ts";
import { findHostEnd } from "../../plugins/parts/link/host_end.ts";

/** The links of the host that a container's packets pass. */
export interface HostSide {
  /** The other end of a veth, on the host. */
  readonly hostEnd: Link | undefined;
  /** The link by which packets enter the host's routing: that end, or its bridge. */
  readonly entry: Link | undefined;
}

/** An interface of a running container. */
export interface LiveInterface extends HostSide {
  /** The attachment in a sentence, such as `default/web eth0`. */
  readonly attachment: string;
  readonly cached: NodeAttachment;
  /** Its addresses according to ADD. */
  readonly addresses: readonly Cidr[];
  /** The interface; undefined if it was deleted. */
  readonly link: Link | undefined;
  /** Whether the host is its router. */
  readonly isRouted: boolean;
}

/** Lists the interfaces of containers with a namespace that exists. */
export const listLive: (node: NodeReader) => readonly LiveInterface[] =
  oncePerNode(
    (node) =>
      node.liveInterfaces.flatMap((cached) =>
        ifPossible(() => look(node, cached)) ?? []
      ),
  );

function look(node: NodeReader, cached: NodeAttachment): LiveInterface {
  using sandbox = Rtnl.open(cached.netns);
  const link = sandbox.link.find(cached.ifName);
  const side = findHostSide(node, sandbox, link);
  const { entry } = side;
  const ips = resultOf(cached)?.ips ?? [];
  const own = entry && node.host.address.list({ ifindex: entry.index });
  return {
    ...side,
    attachment: nameAttachment(cached),
    cached,
    addresses: ips.map(({ address }) => address),
    link,
    isRouted: ips.some(({ gateway }) =>
      gateway && own?.some(({ address }) => address.ip.equals(gateway))
    ),
  };
}

/** Finds where a container's packets enter the host. */
export function findHostSide(
  { host }: Pick<NodeReader, "host">,
  sandbox: Rtnl,
  link: Link | undefined,
): HostSide {
  const hostEnd = findHostEnd(host, sandbox, link);
  const master = findMaster(host, hostEnd);
  return { hostEnd, entry: master && isBridge(master) ? master : hostEnd };
}

/** Finds the bridge or VRF that a link is a port of. */
export function findMaster(
  { link }: Pick<Rtnl, "link">,
  port: Pick<Link, "masterIndex"> | undefined,
): Link | undefined {
  const { masterIndex } = port ?? {};
  return masterIndex === undefined ? undefined : link.find(masterIndex);
}

/** Names an attachment in texts: `default/web eth0`. */
export function nameAttachment(
  { pod, containerId, ifName }: NodeAttachment,
): string {
  return `${pod ?? shortenId(containerId)} ${ifName}`;
}

/**
 * Lists the plugins of the configuration with which an attachment was made, and those
 * that its chains run.
 */
export function listCachedPlugins(
  { config }: Pick<NodeAttachment, "config">,
): JsonObject[] {
  const document = ifPossible(() => parseJson(config));
  if (!isObject(document)) return [];
  const { plugins } = document;
  const listed = (Array.isArray(plugins) ? plugins : [document])
    .filter((plugin): plugin is JsonObject => isObject(plugin));
  return ifPossible(() =>
    unfoldChains(decodePluginConfs(listed)).map(({ document }) => document)
  ) ?? listed;
}
