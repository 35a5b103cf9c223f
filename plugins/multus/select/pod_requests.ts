/**
 * What a pod may request of a network by its annotations: what the network's
 * definition offers. Who may create pods is often a tenant, and plugins take
 * addresses, devices and settings as they are requested.
 *
 * ```
 * [{ "name": "lan", "ips": ["10.1.1.11/24"], "cni-args": { "promisc": true } }]
 *                          └ static needs the capability "ips"
 * ```
 *
 * @module
 */

import {
  findValue,
  foldKey,
  isObject,
  type JsonObject,
  type JsonValue,
  listValues,
  objectOf,
} from "../../../base/json/json.ts";
import { Cidr } from "../../../net/cidr.ts";
import { Ip, unlessNoAddress } from "../../../net/ip.ts";
import { listRanges } from "../../parts/address/ipam_ranges.ts";
import { typeHas } from "../../parts/traits.ts";
import type { MultusConfig } from "../model/config.ts";
import { type Delegate, pluginsOf } from "../model/delegate.ts";
import { type NetworkError, refusal } from "../model/network_error.ts";

/** The settings of the node. */
export type PodRequestPolicy = Pick<MultusConfig, "podRequests" | "podArgs">;

/** Keys of `cni-args` that pods may set of any network. */
const USUAL_ARGS: readonly string[] = [
  // Source: CNI CONVENTIONS.md, "args". "ips" and "mac" are checked below.
  "ips",
  "labels",
  "mac",
  // Source: Mellanox/nvidia-k8s-ipam, "poolNames" of cni-args.
  "poolnames",
  "pooltype",
  // Source: Mellanox/ib-kubernetes, which sets them in annotations of pods.
  "guid",
  "mellanox.infiniband.app",
  // Source: kubevirt pkg/network/multus, for plugins of network bindings.
  "logicnetworkname",
];

/**
 * Refuses what a pod requests of a network, unless the network's definition, or
 * the node, offers it.
 *
 * @param delegate The definition, before the request is written into it
 * @throws {NetworkError} 7 With what would offer it
 */
export function checkOffered(
  delegate: Delegate,
  { podRequests, podArgs }: PodRequestPolicy,
): void {
  if (podRequests === "any") return;
  const { request: { cniArgs = {} } } = delegate;
  const plugins = listPlugins(delegate);
  checkArgs(delegate, plugins, podArgs);
  for (const text of requestedIps(delegate.request)) {
    const problem = findIpProblem(text, delegate, plugins);
    if (problem !== undefined) {
      throw refuse(delegate, `address ${text}`, problem);
    }
  }
  const { mac = listValues(cniArgs, "mac")[0] } = delegate.request;
  if (mac === undefined || offersMac(delegate, plugins)) return;
  throw refuse(
    delegate,
    `MAC ${JSON.stringify(mac)}`,
    'the definition does not offer it by the capability "mac"',
  );
}

/** Returns the error for a request that a network does not offer. */
export function refuse(
  { name }: Pick<Delegate, "name">,
  what: string,
  problem: string,
): NetworkError {
  return refusal(
    `Refused ${what} on network "${name}": ${problem}; ` +
      '"podRequests" of the node\'s multus configuration can allow it',
  );
}

/** Lists the addresses that a pod requests, as written. */
export function requestedIps(
  { ips = [], cniArgs = {} }: Delegate["request"],
): string[] {
  const inArgs = listValues(cniArgs, "ips")
    .flatMap((list) => Array.isArray(list) ? list : [])
    .filter((text) => typeof text === "string");
  return [...ips, ...inArgs];
}

/** Lists the MACs that a pod requests, as written. */
export function requestedMacs(
  { mac, cniArgs = {} }: Delegate["request"],
): string[] {
  return [mac, ...listValues(cniArgs, "mac")]
    .filter((text) => typeof text === "string");
}

/** Parses an address with or without a prefix length; undefined for no address. */
export function parseIp(text: string): Ip | undefined {
  return unlessNoAddress(() =>
    text.includes("/") ? Cidr.parse(text).ip : Ip.parse(text)
  );
}

function listPlugins({ conf }: Delegate): JsonObject[] {
  return pluginsOf(conf).map(({ document }) => document);
}

function checkArgs(
  delegate: Delegate,
  plugins: readonly JsonObject[],
  podArgs: readonly string[],
): void {
  const { name, request: { cniArgs = {} } } = delegate;
  const permitted = [...USUAL_ARGS, ...podArgs.map(foldKey)];
  const offers = plugins.map((plugin) => {
    const args = objectOf(findValue(plugin, "args"));
    return objectOf(findValue(args, "cni"));
  });
  const refused = Object.entries(cniArgs).find(([key, value]) =>
    !permitted.includes(foldKey(key)) &&
    !offers.some((offer) => isOffered(value, offerOf(offer, key)))
  );
  if (refused === undefined) return;
  throw refusal(
    `Refused ${JSON.stringify(refused[0].slice(0, 100))} of "cni-args" on ` +
      `network "${name}": the definition does not offer it in "args.cni"; ` +
      '"podArgs" of the node\'s multus configuration can allow it',
  );
}

/** Returns the value with which an object offers a key; null offers it without a default. */
function offerOf(offer: JsonObject, key: string): JsonValue | undefined {
  return listValues(offer, key).at(-1);
}

/** An offered object offers its keys only. */
function isOffered(value: JsonValue, offered: JsonValue | undefined): boolean {
  if (offered === undefined) return false;
  if (!isObject(value)) return !isObject(offered);
  return isObject(offered) &&
    Object.entries(value as JsonObject).every(([key, item]) =>
      isOffered(item, offerOf(offered as JsonObject, key))
    );
}

function findIpProblem(
  text: string,
  delegate: Delegate,
  plugins: readonly JsonObject[],
): string | undefined {
  const ip = parseIp(text);
  if (ip === undefined) return undefined;
  if (!ip.isGlobalUnicast && !ip.isLinkLocal) return "no container can have it";
  if (listGateways(plugins).some((gateway) => gateway.equals(ip))) {
    return "it is a gateway of the definition";
  }
  // `static` refuses an address without a length.
  const network = parseCidr(text)?.masked();
  for (const ipam of listIpam(plugins)) {
    const type = findValue(ipam, "type");
    if (keepsToRanges(type, ip, ipam)) continue;
    if (!declares(delegate, "ips")) {
      return 'the definition does not offer it by the capability "ips"';
    }
    const bounds = typeHas(type, "assigns requests") ? listSubnets(ipam) : [];
    if (bounds.length === 0) continue;
    const around = bounds.filter((one) => one.contains(ip));
    if (around.length === 0) {
      return `the definition's addresses are in ${bounds.join(", ")}`;
    }
    // With another length, a gateway would get another network.
    if (network && !around.some((one) => one.equals(network))) {
      return `the definition's subnet is ${around.join(", ")}`;
    }
  }
  return undefined;
}

/** Reports whether whoever wrote a network has chosen the range of an address. */
export function isBounded(delegate: Delegate, ip: Ip): boolean {
  return listIpam(listPlugins(delegate)).every((ipam) => {
    const type = findValue(ipam, "type");
    return keepsToRanges(type, ip, ipam) ||
      typeHas(type, "assigns requests") && listSubnets(ipam).length > 0;
  });
}

/** Reports whether an IPAM plugin assigns an address from its own ranges only. */
function keepsToRanges(
  type: JsonValue | undefined,
  ip: Ip,
  ipam: JsonObject,
): boolean {
  return typeHas(type, "assigns own ranges") ||
    typeHas(type, "leases requests") &&
      listRanges(ipam).some((range) => range.contains(ip));
}

/** Lists the configurations of IPAM plugins, at any depth. */
function listIpam(plugins: readonly JsonObject[]): JsonObject[] {
  return listAll(plugins, "ipam").map(objectOf)
    .filter((ipam) => (findValue(ipam, "type") ?? "") !== "");
}

/** Lists the gateways of addresses, ranges and routes. */
function listGateways(plugins: readonly JsonObject[]): Ip[] {
  return listAll(listIpam(plugins), "gateway", "gw").flatMap((text) =>
    typeof text === "string" ? parseIp(text) ?? [] : []
  );
}

/** Lists the values of keys, at any depth. */
function listAll(
  value: JsonValue | readonly JsonObject[],
  ...keys: readonly string[]
): JsonValue[] {
  if (Array.isArray(value)) {
    return value.flatMap((item) => listAll(item, ...keys));
  }
  if (!isObject(value)) return [];
  return Object.entries(value as JsonObject).flatMap(([key, item]) => [
    ...keys.includes(foldKey(key)) ? [item] : [],
    ...listAll(item, ...keys),
  ]);
}

function declares({ conf }: Delegate, capability: string): boolean {
  return pluginsOf(conf)
    .some(({ capabilities }) => capabilities[capability] === true);
}

/** Lists the subnets of the addresses in an IPAM configuration. */
function listSubnets(ipam: JsonObject): Cidr[] {
  const addresses = findValue(ipam, "addresses");
  if (!Array.isArray(addresses)) return [];
  return addresses.flatMap((item) => {
    const text = findValue(objectOf(item), "address");
    const cidr = parseCidr(text);
    return cidr === undefined ? [] : [cidr.masked()];
  });
}

function parseCidr(value: JsonValue | undefined): Cidr | undefined {
  return typeof value === "string"
    ? unlessNoAddress(() => Cidr.parse(value))
    : undefined;
}

/**
 * Reports whether a pod may choose the MAC of its interface: by the capability,
 * or on a network for virtual machines, which bring their own. Such a network
 * has no addresses, or a plugin `tuning` that is there for nothing else.
 *
 * Source: KubeVirt user guide, "Interfaces and Networks", whose definitions
 * declare no capability.
 */
function offersMac(
  delegate: Delegate,
  plugins: readonly JsonObject[],
): boolean {
  return declares(delegate, "mac") || listIpam(plugins).length === 0 ||
    plugins.some(isBareTuning);
}

function isBareTuning(plugin: JsonObject): boolean {
  return typeHas(findValue(plugin, "type"), "sets requested MAC") &&
    Object.keys(plugin).every((key) =>
      ["type", "name", "cniversion", "capabilities"].includes(foldKey(key))
    );
}
