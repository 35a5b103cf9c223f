/**
 * The interfaces of running containers, as the kernel has them.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { ifPossible } from "../../base/files/io.ts";
import { isObject, type JsonObject, parseJson } from "../../base/json/json.ts";
import { decodeResult } from "../../cni/result/decoding.ts";
import { isBridge, type Link } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Cidr } from "../../net/cidr.ts";
import type { NodeAttachment } from "../attachments/node_attachments.ts";
import { shortenId } from "../attachments/target.ts";
import type { Node } from "./node.ts";

/** An interface of a running container. */
export interface LiveInterface {
  /** The attachment in a sentence, such as `default/web eth0`. */
  readonly attachment: string;
  readonly cached: NodeAttachment;
  /** Its addresses according to ADD. */
  readonly addresses: readonly Cidr[];
  /** The interface; undefined if it is gone. */
  readonly link: Link | undefined;
  /** The other end of a veth, on the host. */
  readonly hostEnd: Link | undefined;
  /** The link by which its packets enter the host: the end, or its bridge. */
  readonly entry: Link | undefined;
  /** Whether the host is its router. */
  readonly isRouted: boolean;
}

const KNOWN = new WeakMap<Node, readonly LiveInterface[]>();

/** Lists the interfaces of containers with a namespace that exists. */
export function listLive(node: Node): readonly LiveInterface[] {
  const known = KNOWN.get(node);
  if (known !== undefined) return known;
  const found = node.liveAttachments.flatMap((cached) =>
    ifPossible(() => look(node, cached)) ?? []
  );
  KNOWN.set(node, found);
  return found;
}

function look(node: Node, cached: NodeAttachment): LiveInterface {
  using sandbox = Rtnl.open(cached.netns);
  const link = sandbox.link.find(cached.ifName);
  const hostEnd = findHostEnd(node, link);
  const master = hostEnd?.masterIndex === undefined
    ? undefined
    : node.host.link.find(hostEnd.masterIndex);
  const entry = master && isBridge(master) ? master : hostEnd;
  const addresses = listAddressesOf(cached);
  return {
    attachment: nameAttachment(cached),
    cached,
    addresses,
    link,
    hostEnd,
    entry,
    isRouted: entry !== undefined && isGateway(node, entry, cached),
  };
}

/** Finds the other end of a veth, if it is on the host. */
export function findHostEnd(
  { host }: Pick<Node, "host">,
  link: Link | undefined,
): Link | undefined {
  if (link?.kind !== "veth" || link.linkIndex === undefined) return undefined;
  const peer = host.link.find(link.linkIndex);
  const isPeer = peer?.kind === "veth" && peer.linkIndex === link.index;
  return isPeer ? peer : undefined;
}

/** Lists the addresses of an attachment according to the result of ADD. */
function listAddressesOf({ result }: NodeAttachment): Cidr[] {
  const decoded = ifPossible(() => decodeResult(result ?? {}));
  return decoded?.ips.map(({ address }) => address) ?? [];
}

/** Reports whether the host has a gateway of the attachment. */
function isGateway(
  { host }: Pick<Node, "host">,
  entry: Link,
  { result }: NodeAttachment,
): boolean {
  const gateways = ifPossible(() => decodeResult(result ?? {}))?.ips
    .flatMap(({ gateway }) => gateway ?? []) ?? [];
  const own = host.address.list({ ifindex: entry.index });
  return gateways.some((gateway) =>
    own.some(({ address }) => address.ip.equals(gateway))
  );
}

/** Names an attachment as people do: `default/web eth0`. */
export function nameAttachment(
  { pod, containerId, ifName }: NodeAttachment,
): string {
  return `${pod ?? shortenId(containerId)} ${ifName}`;
}

/**
 * Explains how to set up again what ADD had set up: only another ADD does it.
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
export function listCachedPlugins({ config }: NodeAttachment): JsonObject[] {
  const document = ifPossible(() => parseJson(config));
  if (!isObject(document)) return [];
  const { plugins } = document;
  return (Array.isArray(plugins) ? plugins : [document])
    .filter((plugin): plugin is JsonObject => isObject(plugin));
}
