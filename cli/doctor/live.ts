/**
 * The interfaces of running containers, as the kernel has them.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { ifPossible } from "../../base/files/io.ts";
import { isObject, type JsonObject, parseJson } from "../../base/json/json.ts";
import { decodeResult } from "../../cni/result/decoding.ts";
import type { Result } from "../../cni/result/result.ts";
import { isBridge, type Link } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Cidr } from "../../net/cidr.ts";
import type { NodeAttachment } from "../attachments/node_attachments.ts";
import { shortenId } from "../attachments/target.ts";
import type { Node } from "./node.ts";

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
  /** The interface; undefined if it is gone. */
  readonly link: Link | undefined;
  /** Whether the host is its router. */
  readonly isRouted: boolean;
}

const KNOWN = new WeakMap<Node, readonly LiveInterface[]>();

/** Lists the interfaces of containers with a namespace that exists. */
export function listLive(node: Node): readonly LiveInterface[] {
  const known = KNOWN.get(node);
  if (known !== undefined) return known;
  const found = node.liveInterfaces.flatMap((cached) =>
    ifPossible(() => look(node, cached)) ?? []
  );
  KNOWN.set(node, found);
  return found;
}

function look(node: Node, cached: NodeAttachment): LiveInterface {
  using sandbox = Rtnl.open(cached.netns);
  const link = sandbox.link.find(cached.ifName);
  const side = findHostSide(node, link);
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
  { host }: Pick<Node, "host">,
  link: Link | undefined,
): HostSide {
  const peer = link?.kind === "veth" && link.linkIndex !== undefined
    ? host.link.find(link.linkIndex)
    : undefined;
  const isPeer = peer?.kind === "veth" && peer.linkIndex === link?.index;
  const hostEnd = isPeer ? peer : undefined;
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

/** Returns the result of ADD; undefined if it cannot be read. */
export function resultOf({ result }: NodeAttachment): Result | undefined {
  return ifPossible(() => decodeResult(result ?? {}));
}

/** Names an attachment in texts: `default/web eth0`. */
export function nameAttachment(
  { pod, containerId, ifName }: NodeAttachment,
): string {
  return `${pod ?? shortenId(containerId)} ${ifName}`;
}

/**
 * Explains how to restore what ADD set up, which only another ADD can do.
 *
 * @param attachment Undefined if no runtime has it in its cache
 */
export function adviseRestart(
  attachment: NodeAttachment | undefined,
): { readonly command?: string; readonly advice?: string } {
  if (attachment === undefined) return { advice: "restart the container" };
  const { pod, network, netns, containerId, ifName, via } = attachment;
  const { cniArgs, capabilityArgs } = attachment;
  if (pod !== undefined) {
    const [namespace, name] = pod.split("/");
    return {
      advice: "only another ADD sets it up again: restart the pod, for " +
        shell`instance by kubectl -n ${namespace} delete pod ${name}`,
    };
  }
  const isPlain = via === undefined && cniArgs.length === 0 &&
    Object.keys(capabilityArgs).length === 0;
  const named = shell`${network} ${netns} --container-id ${containerId} ` +
    shell`--ifname ${ifName}`;
  return isPlain
    ? { command: `cni del ${named} && cni add ${named}` }
    : { advice: "only another ADD sets it up again: restart the container" };
}

/** Lists the plugins of the configuration with which an attachment was made. */
export function listCachedPlugins(
  { config }: Pick<NodeAttachment, "config">,
): JsonObject[] {
  const document = ifPossible(() => parseJson(config));
  if (!isObject(document)) return [];
  const { plugins } = document;
  return (Array.isArray(plugins) ? plugins : [document])
    .filter((plugin): plugin is JsonObject => isObject(plugin));
}
