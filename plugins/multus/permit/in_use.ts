/**
 * The addresses and MAC addresses of this node's containers, from the caches of
 * multus and of the runtime, and of the node itself. Pods are not permitted to
 * request them.
 *
 * @module
 */

import {
  isObject,
  type JsonObject,
  type JsonValue,
  objectOf,
} from "../../../base/json/json.ts";
import {
  AttachmentCache,
  type CachedAttachment,
  DEFAULT_CACHE_DIR,
} from "../../../libcni/cache.ts";
import type { Log } from "../../../base/log/log.ts";
import { leadsToSandbox } from "../../../cni/call/netns_existence.ts";
import type { Call } from "../../../cni/plugin.ts";
import { lockPrivately } from "../../../base/files/lock.ts";
import { ifPossible } from "../../../base/files/io.ts";
import { findFileId } from "../../../base/files/same_file.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { Cidr } from "../../../net/cidr.ts";
import { Ip, unlessNoAddress } from "../../../net/ip.ts";
import { Mac } from "../../../net/mac.ts";
import { typeHas } from "../../parts/traits.ts";
import { type Delegate, loadDelegate, pluginsOf } from "../model/delegate.ts";
import type { K8sArgs } from "../model/k8s_args.ts";
import type { MultusConfig } from "../model/config.ts";
import type { NetworkError } from "../model/network_error.ts";
import { isNested } from "../model/recursion.ts";
import {
  isBounded,
  parseIp,
  refuse,
  requestedIps,
  requestedMacs,
} from "../select/pod_requests.ts";
import { mayShareSegment } from "./segments.ts";

/** The parts of a call that determine what its pod is permitted to request. */
export interface PermittingCall {
  readonly call: Pick<
    Call<MultusConfig>,
    "args" | "config" | "context" | "hostNetns" | "signal"
  >;
  /** The pod, from CNI_ARGS. */
  readonly k8s: K8sArgs;
  /** The attachments that multus created. */
  readonly cache: AttachmentCache;
  readonly log: Log;
}

/** The addresses and MAC addresses of another container's attachment. */
interface ValuesInUse {
  /** The container, for errors. */
  readonly owner: string;
  readonly ips: readonly string[];
  readonly macs: readonly string[];
  /** The configuration; undefined for the node. */
  readonly config?: Uint8Array;
}

/** The addresses of the node itself. */
interface UsedByNode extends ValuesInUse {
  /** The node's networks. */
  readonly subnets: readonly Cidr[];
}

/** The addresses and MAC addresses that a pod requests from a network. */
interface RequestedValues {
  readonly delegate: Delegate;
  readonly ips: readonly string[];
  readonly macs: readonly string[];
}

/**
 * Reserves the addresses and MAC addresses that a pod requests, if they are unused.
 * Otherwise, two calls could both find an address unused.
 *
 * @returns Locks, to be held until libcni's cache contains the pod's attachments
 * @throws {NetworkError} 7 If an address is in use
 * @throws {CniError} 11 if a different call that assigns an address takes too long
 */
export async function reserveRequested(
  session: PermittingCall,
  delegates: readonly Delegate[],
): Promise<Disposable> {
  using stack = new DisposableStack();
  const { hostNetns, context, signal } = session.call;
  // The outer multus holds the locks of a nested multus.
  const values = isNested(context.env)
    ? []
    : listRequestedValues(delegates).flatMap((
      { ips, macs },
    ) => [...ips, ...macs]);
  // Sorted, so that no two calls wait for each other.
  for (const value of [...new Set(values)].sort()) {
    const name = `request-${findFileId(hostNetns)}-${value}`;
    const wait = { what: `request for ${value}`, log: session.log, signal };
    stack.use(await lockPrivately(name, wait));
  }
  checkUnused(session, delegates);
  return stack.move();
}

/**
 * Refuses addresses and MAC addresses that another running container of this node, or
 * the node itself, uses. Containers of the same pod are its predecessors.
 *
 * @throws {NetworkError} 7 If an address is in use
 */
export function checkUnused(
  session: PermittingCall,
  delegates: readonly Delegate[],
): void {
  const requested = listRequestedValues(delegates);
  if (requested.length === 0) return;
  const { hostNetns } = session.call;
  const node = readNode(hostNetns);
  const inUse = [node, ...listOthers(session)];
  for (const { delegate, ips, macs } of requested) {
    for (const used of inUse) {
      const ip = ips.find((one) => used.ips.includes(one));
      const mac = macs.find((one) => used.macs.includes(one));
      if (ip !== undefined && mayConflict(delegate, used, hostNetns)) {
        throw inUseError(delegate, `address ${ip}`, used);
      }
      if (mac !== undefined) throw inUseError(delegate, `MAC ${mac}`, used);
    }
    checkNeighbours(delegate, ips, node);
  }
}

function listRequestedValues(
  delegates: readonly Delegate[],
): RequestedValues[] {
  return delegates.map((delegate) => ({
    delegate,
    ips: requestedIps(delegate.request).flatMap((text) =>
      parseIp(text)?.toString() ?? []
    ),
    macs: requestedMacs(delegate.request).flatMap((text) =>
      parseMac(text) ?? []
    ),
  })).filter(({ ips, macs }) => ips.length + macs.length > 0);
}

function inUseError(
  delegate: Delegate,
  what: string,
  { owner }: ValuesInUse,
): NetworkError {
  return refuse(delegate, what, `${owner} has it`);
}

/**
 * Refuses unused addresses of the node's networks, unless the definition offers
 * exactly these addresses: the node would route them to the pod, and could no longer
 * reach its neighbours.
 */
function checkNeighbours(
  delegate: Delegate,
  ips: readonly string[],
  { subnets }: UsedByNode,
): void {
  const [first] = pluginsOf(delegate.conf);
  if (!typeHas(first?.type, "routes each address")) return;
  for (const text of ips) {
    const ip = Ip.parse(text);
    const subnet = subnets.find((one) => one.contains(ip));
    if (subnet === undefined || isBounded(delegate, ip)) continue;
    const problem = `the node's network ${subnet.masked()} has it`;
    throw refuse(delegate, `address ${ip}`, problem);
  }
}

function parseMac(text: string): string | undefined {
  return unlessNoAddress(() => Mac.parse(text))?.toString();
}

/** Lists what the attachments of other pods have. */
function listOthers({ call, cache, k8s }: PermittingCall): ValuesInUse[] {
  const { args: { containerId }, hostNetns } = call;
  return [cache, new AttachmentCache(DEFAULT_CACHE_DIR)]
    .flatMap((one) => one.listAttachments())
    .filter((found) =>
      found.containerId !== containerId && !isOfPod(found, k8s) &&
      leadsToSandbox(sandboxOf(found), hostNetns) !== false
    ).map(describe);
}

/** Reports whether a container belongs to the same pod, and is being replaced. */
function isOfPod(
  { cniArgs }: CachedAttachment,
  { podNamespace, podName }: PermittingCall["k8s"],
): boolean {
  const args = new Map(cniArgs);
  return podName !== "" && args.get("K8S_POD_NAME") === podName &&
    args.get("K8S_POD_NAMESPACE") === podNamespace;
}

/** Caches of older runtimes contain the sandbox only in the result. */
function sandboxOf({ netns, result = {} }: CachedAttachment): string {
  const sandboxes = listObjects(result["interfaces"])
    .map(({ sandbox }) => sandbox)
    .filter((path) => typeof path === "string");
  return [netns, ...sandboxes].find((path) => path !== "") ?? "";
}

/**
 * Omits MAC addresses of the node's links, because a virtual function keeps its own.
 */
function readNode(hostNetns: string): UsedByNode {
  using host = Rtnl.open(hostNetns);
  const addresses = host.address.list().map(({ address }) => address);
  return {
    owner: "the node",
    ips: addresses.map(({ ip }) => ip.toString()),
    macs: [],
    // Addresses on other pods' veth pairs belong to no network of the node.
    subnets: addresses.filter(({ ip, prefixLength }) =>
      prefixLength < ip.bitLength
    ),
  };
}

function describe(found: CachedAttachment): ValuesInUse {
  const { containerId, cniArgs, result = {} } = found;
  const args = new Map(cniArgs);
  const name = args.get("K8S_POD_NAME");
  return {
    owner: name
      ? `pod "${args.get("K8S_POD_NAMESPACE")}/${name}"`
      : `container "${containerId}"`,
    ips: listIps(result),
    macs: listObjects(result["interfaces"]).flatMap(({ mac }) =>
      typeof mac === "string" ? parseMac(mac) ?? [] : []
    ),
    config: found.config,
  };
}

/** Lists the addresses of a result of any version. */
function listIps(result: JsonObject): string[] {
  const texts = [
    ...listObjects(result["ips"]).map(({ address }) => address),
    objectOf(result["ip4"])["ip"],
    objectOf(result["ip6"])["ip"],
  ];
  return texts.flatMap((text) =>
    typeof text === "string" ? parseIp(text)?.toString() ?? [] : []
  );
}

function listObjects(value: JsonValue | undefined): JsonObject[] {
  return Array.isArray(value)
    ? value.filter((item): item is JsonObject => isObject(item))
    : [];
}

/** Reports whether the networks of a request and of an address might conflict. */
function mayConflict(
  { conf }: Delegate,
  { config }: ValuesInUse,
  hostNetns: string,
): boolean {
  if (config === undefined) return true;
  // An unreadable configuration may be of any segment.
  const other = ifPossible(() => loadDelegate(config).conf);
  return other === undefined || mayShareSegment(conf, other, hostNetns);
}
