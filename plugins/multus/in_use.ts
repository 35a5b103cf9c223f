/**
 * The addresses and MACs that containers of this node have, from the caches of
 * multus and of the runtime, and the node's own addresses. No pod may request
 * them.
 *
 * @module
 */

import {
  findValue,
  isObject,
  type JsonObject,
  type JsonValue,
  objectOf,
} from "../../cni/json/json.ts";
import {
  AttachmentCache,
  type CachedAttachment,
  DEFAULT_CACHE_DIR,
} from "../../cni/libcni/cache.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { unlessNoAddress } from "../../net/ip.ts";
import { Mac } from "../../net/mac.ts";
import { type Delegate, isList, loadDelegate } from "./model/delegate.ts";
import {
  parseIp,
  refuse,
  requestedIps,
  requestedMacs,
} from "./select/pod_requests.ts";
import type { Session } from "./session.ts";
import { isSandboxGone } from "./stale_containers.ts";

/** What an attachment of another container has. */
interface Holding {
  /** The container, in errors. */
  readonly owner: string;
  readonly ips: readonly string[];
  readonly macs: readonly string[];
  readonly segment: string | undefined;
}

/**
 * Refuses addresses and MACs that another living container of this node has, or
 * the node itself. Containers of the same pod are the pod's earlier ones.
 *
 * @throws {NetworkError} 7 If one is in use
 */
export function checkUnused(
  session: Session,
  delegates: readonly Delegate[],
): void {
  const asked = delegates.map((delegate) => ({
    delegate,
    ips: requestedIps(delegate.request).flatMap((text) =>
      parseIp(text)?.toString() ?? []
    ),
    macs: requestedMacs(delegate.request).flatMap((text) =>
      parseMac(text) ?? []
    ),
  })).filter(({ ips, macs }) => ips.length + macs.length > 0);
  if (asked.length === 0) return;
  const holdings = listHoldings(session);
  for (const { delegate, ips, macs } of asked) {
    const segment = segmentOf(delegate.conf);
    const owners = holdings.filter((held) => meets(held.segment, segment));
    checkNone(
      delegate,
      "address",
      ips,
      owners.map(({ owner, ips }) => [owner, ips]),
    );
    checkNone(
      delegate,
      "MAC",
      macs,
      holdings.map(({ owner, macs }) => [owner, macs]),
    );
  }
}

function checkNone(
  delegate: Delegate,
  kind: string,
  wanted: readonly string[],
  owners: readonly (readonly [owner: string, held: readonly string[]])[],
): void {
  for (const [owner, held] of owners) {
    const taken = wanted.find((one) => held.includes(one));
    if (taken === undefined) continue;
    throw refuse(delegate, `${kind} ${taken}`, `${owner} has it`);
  }
}

function parseMac(text: string): string | undefined {
  return unlessNoAddress(() => Mac.parse(text))?.toString();
}

function listHoldings({ call, cache, k8s }: Session): Holding[] {
  const { args: { containerId }, hostNetns } = call;
  const others = [cache, new AttachmentCache(DEFAULT_CACHE_DIR)]
    .flatMap((one) => one.listAttachments())
    .filter((found) =>
      found.containerId !== containerId && !isOfPod(found, k8s) &&
      !isSandboxGone(sandboxOf(found), hostNetns)
    );
  return [describeNode(hostNetns), ...others.map(describe)];
}

/** Reports whether a container was the pod's: it is replaced. */
function isOfPod(
  { cniArgs }: CachedAttachment,
  { podNamespace, podName }: Session["k8s"],
): boolean {
  const args = new Map(cniArgs);
  return podName !== "" && args.get("K8S_POD_NAME") === podName &&
    args.get("K8S_POD_NAMESPACE") === podNamespace;
}

/** Caches of older runtimes have the sandbox in the result only. */
function sandboxOf({ netns, result = {} }: CachedAttachment): string {
  const sandboxes = listObjects(result["interfaces"])
    .map(({ sandbox }) => sandbox)
    .filter((path) => typeof path === "string");
  return [netns, ...sandboxes].find((path) => path !== "") ?? "";
}

/** MACs of the node's links are left out: a virtual function keeps its own. */
function describeNode(hostNetns: string): Holding {
  using host = Rtnl.open(hostNetns);
  const ips = host.address.list().map(({ address }) => address.ip.toString());
  return { owner: "the node", ips, macs: [], segment: undefined };
}

function describe(found: CachedAttachment): Holding {
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
    segment: segmentOfBytes(found.config),
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

/** Networks of two known segments have nothing in common. */
function meets(left: string | undefined, right: string | undefined): boolean {
  return left === undefined || right === undefined || left === right;
}

function segmentOfBytes(config: Uint8Array): string | undefined {
  try {
    return segmentOf(loadDelegate(config).conf);
  } catch {
    return undefined; // An unreadable configuration may be of any segment.
  }
}

/**
 * Names the segment of a network that the node does not route: its parent
 * interface or bridge, and VLAN. Undefined for other networks, and unknown ones.
 */
function segmentOf(conf: Delegate["conf"]): string | undefined {
  const [plugin] = isList(conf) ? conf.plugins : [conf.plugin];
  if (plugin === undefined) return undefined;
  const { type, document } = plugin;
  const valueOf = (key: string): JsonValue => findValue(document, key) ?? "";
  const vlan = String(valueOf("vlan") || valueOf("vlanId"));
  const master = valueOf("master");
  switch (type) {
    case "macvlan":
    case "ipvlan":
    case "vlan":
      return master === "" ? undefined : JSON.stringify([master, vlan]);
    case "bridge":
      return valueOf("isGateway") || valueOf("isDefaultGateway")
        ? undefined
        : JSON.stringify([valueOf("bridge") || "cni0", vlan]);
    default:
      return undefined;
  }
}
