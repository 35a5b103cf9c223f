/**
 * The host's access to containers on a macvlan or ipvlan. The kernel passes
 * nothing between such links and the link below them, but passes packets among
 * them: so the host gets one, the access link, for each network and master.
 *
 * ```
 *              host                              container
 *   ┌──────────────────────────┐             ┌─────────────────┐
 *   │ eth0 (master) ──┬────────┼─────────────┼─ eth0           │
 *   │  192.168.1.5/24 │        │             │ 192.168.1.10/24 │
 *   │                 └─ cnih… │             └─────────────────┘
 *   └──────────────────────────┘
 *    192.168.1.10 dev cnih… src 192.168.1.5 metric <attachment>
 * ```
 *
 * The metric of a route is a hash of the attachment. So DEL and GC find the
 * routes of an attachment without its addresses, and no record exists that
 * could differ from the kernel. The access link is
 * deleted with its last route.
 *
 * @module
 */

import { invalidConfig } from "../../../base/error.ts";
import { unlessMissing } from "../../../base/files/io.ts";
import { lockPrivately } from "../../../base/files/lock.ts";
import type { Rollback } from "../../../base/rollback.ts";
import type { Differences } from "../../../cni/call/differences.ts";
import type { Attachment, NetConf } from "../../../cni/config/types.ts";
import type { Call } from "../../../cni/plugin.ts";
import type { Interface, IpConfig } from "../../../cni/result/result.ts";
import { isErrno } from "../../../ffi/errno.ts";
import { inNetns } from "../../../ffi/netns.ts";
import { Scope } from "../../../ffi/rtnl/constants.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { LinkData } from "../../../ffi/rtnl/link_types.ts";
import { IpvlanMode, type KindData } from "../../../ffi/rtnl/link_kinds.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { NeighborRequests } from "../../../ffi/rtnl/neighbor.ts";
import { findNsid } from "../../../ffi/rtnl/nsid.ts";
import type { Route } from "../../../ffi/rtnl/route.ts";
import {
  ensureSysctl,
  isWritableSysctl,
  readSysctl,
  tryWriteSysctl,
} from "../../../ffi/sysctl.ts";
import { Cidr } from "../../../net/cidr.ts";
import type { Ip } from "../../../net/ip.ts";
import { Mac } from "../../../net/mac.ts";
import { checkNotOfHost } from "../address/free_ip.ts";
import { readyHostEndForIpv6 } from "../address/ipv6.ts";
import { aliasPrefixOf, attachmentOf } from "../owner/attachment.ts";
import { stableName } from "../owner/stable_name.ts";
import { ownIpsOf, requirePrevResult } from "../sandbox/prev_result.ts";
import { netnsIdOf, openSandbox } from "../sandbox/sandbox.ts";
import {
  checkAddresses,
  checkRoutes,
  compareLink,
  isOn,
  throwDifferences,
} from "./check_link.ts";
import {
  addingAddress,
  listAddresses,
  makeChanges,
  withAction,
} from "./configure_link.ts";
import { deleteNow } from "./delete_links.ts";
import type { HostAccessKeys } from "./host_access_schema.ts";
import { listMissingAddresses } from "./repair_link.ts";
import { accessLinkNameOf, isAccessLinkName } from "./access_link_name.ts";
import { describeLink } from "./describe_link.ts";

/** A call of a plugin whose containers the host can reach. */
export type HostAccessCall = Call<NetConf & HostAccessKeys>;

/** What the host has to reach one container. */
interface Access {
  /** The access link's name. */
  readonly name: string;
  /** Its kind and mode: those of the container's interface. */
  readonly info: KindData;
  /** The master. */
  readonly lower: Link;
  /** The access link's own addresses. */
  readonly addresses: readonly Cidr[];
  /** The master's addresses for which the access link answers. */
  readonly proxied: readonly Ip[];
  /**
   * The container's addresses that do not answer the access link: ipvlan passes a reply
   * to the link that has its target address.
   */
  readonly neighbors: readonly Ip[];
  /** The container's MAC. */
  readonly mac: Mac | undefined;
  /** One for each address of the container. */
  readonly routes: readonly Route[];
}

/** See `giveHostAccess()`. */
export async function giveAccess(
  call: HostAccessCall,
  link: Link,
  ips: readonly IpConfig[],
  rollback: Rollback,
): Promise<Interface> {
  using host = Rtnl.open(call.hostNetns);
  const access = planAccess(host, call, link, ips);
  for (const { address } of ips) {
    checkNotOfHost(host, address.ip, [access.lower]);
  }
  rollback.onFailure("end the host's access", () => endAccess(call));
  return describeLink(await ensureAccess(host, call, access));
}

/** See `repairHostAccess()`. */
export async function repairAccess(
  call: HostAccessCall,
  data: LinkData,
): Promise<void> {
  const result = requirePrevResult(call, "required prevResult missing");
  using sandbox = openSandbox(call.args);
  const link = sandbox.link.find(call.args.ifName);
  if (link === undefined || link.kind !== data.kind) return;
  const ips = ownIpsOf(result, call.args);
  if (ips.length === 0) return;
  using host = Rtnl.open(call.hostNetns);
  if (!isOnMaster(host, sandbox, link, call)) return;
  // The container can change the mode of an ipvlan, which is its master's.
  const access = planAccess(host, call, { ...link, data }, ips);
  await ensureAccess(host, call, access);
  for (const { key, value, isVital } of sysctlsOf(access)) {
    if (!isVital) continue;
    withAction(
      `set ${key.replaceAll("/", ".")} to ${value}`,
      () => inNetns(host.netns, () => ensureSysctl(key, value)),
    );
  }
}

/**
 * Reports whether an interface is still on the host's master: its container can replace
 * it by one on a link of its own, of any index, or by that of another network.
 */
function isOnMaster(
  host: Rtnl,
  sandbox: Rtnl,
  link: Link,
  { config: { master: name } }: HostAccessCall,
): boolean {
  const { kind, linkNsid } = link;
  // The name can be an alternative name.
  const master = name ? host.link.find(name) : undefined;
  if (name && (master === undefined || !isOn(link, master))) return false;
  if (linkNsid === undefined) {
    return kind === "ipvlan" && !showsNetnsOfIpvlan();
  }
  return linkNsid === findNsid(sandbox, host.netns);
}

/**
 * Reports whether the kernel shows the namespace of an ipvlan's master.
 *
 * Source: drivers/net/ipvlan/ipvlan_main.c `ipvlan_get_link_net`, since 5.10.
 */
function showsNetnsOfIpvlan(): boolean {
  const [major = 0, minor = 0] = Deno.osRelease().split(".").map(parseFloat);
  return major > 5 || major === 5 && minor >= 10;
}

/** See `endHostAccess()`. */
export async function endAccess(call: HostAccessCall): Promise<void> {
  const own = metricOf(attachmentOf(call));
  await deleteRoutes(call, ({ priority }) => priority === own);
}

/** See `endStaleHostAccess()`. */
export async function endStaleAccess(call: HostAccessCall): Promise<void> {
  const { network, validAttachments } = call;
  if (validAttachments === undefined) return;
  const valid = new Set(
    validAttachments.map((one) => metricOf({ ...one, network })),
  );
  await deleteRoutes(call, ({ priority = 0 }) => !valid.has(priority));
}

/** See `checkHostAccess()`. */
export async function checkAccess(
  call: HostAccessCall,
  link: Link,
  differences: Differences,
): Promise<void> {
  const result = requirePrevResult(call, "required prevResult missing");
  const ips = ownIpsOf(result, call.args);
  if (ips.length === 0) return;
  using host = Rtnl.open(call.hostNetns);
  await differences.collect(async () => {
    const access = planAccess(host, call, link, ips);
    const { name, info } = access;
    const accessLink = compareLink(differences, host, { name }, info);
    await differences.collect(() =>
      checkAddresses(host, accessLink, access.addresses)
    );
    for (const ip of listUnanswered(host, accessLink, access.proxied)) {
      differences.add({ msg: `"${name}" does not answer for ${ip}` });
    }
    for (const ip of listUnknown(host, accessLink, access)) {
      differences.add({ msg: `"${name}" does not have the neighbour ${ip}` });
    }
    await differences.collect(() => checkAccessLink(host, access));
    checkRoutes(host, accessLink, access.routes, "main");
  });
}

/** @throws {CniError} 7 if the host cannot reach the container */
function planAccess(
  host: Rtnl,
  { network, args: { containerId, ifName }, config }: HostAccessCall,
  { kind, data, linkIndex = 0, mtu, mac }: Link,
  ips: readonly IpConfig[],
): Access {
  const lower = host.link.get(linkIndex);
  const mode = data !== undefined && "mode" in data ? data.mode : 0;
  const { hostAddresses = [] } = config;
  for (const { address: { ip } } of ips) {
    if (!hostAddresses.some((own) => own.equals(ip))) continue;
    throw invalidConfig(
      `Cannot give the container ${ip}: hostAddresses has it`,
    );
  }
  const ofMaster = listAddresses(host, lower);
  const priority = metricOf({ network, containerId, ifName });
  const sourceFor = (address: Cidr): Ip => {
    const own = hostAddresses.find(({ family }) => family === address.family);
    if (own !== undefined) return own;
    const usable = ofMaster.map(({ address }) => address).filter((one) =>
      one.family === address.family && !one.ip.isLinkLocal
    );
    const found = usable.find((one) => one.contains(address.ip)) ?? usable[0];
    if (found !== undefined) return found.ip;
    throw invalidConfig(
      `Cannot reach ${address.ip} from the host: "${lower.name}" has no IPv${address.family} address: add one to hostAddresses`,
    );
  };
  const routes = ips.map(({ address }): Route => ({
    destination: Cidr.host(address.ip),
    preferredSource: sourceFor(address),
    scope: Scope.Link,
    priority,
    // The kernel drops larger packets between such links.
    mtu: mtu < lower.mtu ? mtu : undefined,
  }));
  const isIpvlan2 = kind === "ipvlan" && mode === IpvlanMode.L2;
  const goesToMaster = routes.some(({ preferredSource: source }) =>
    source?.family === 4 && !hostAddresses.includes(source)
  );
  if (isIpvlan2 && goesToMaster) checkReversePath(host, lower);
  const has6 = (kind === "macvlan" || isIpvlan2) &&
    ips.some(({ address }) => address.family === 6);
  return {
    name: accessLinkNameOf(network, lower.name, `${kind}/${mode}`),
    info: { kind, data: { mode } } as KindData,
    lower,
    addresses: hostAddresses.map(Cidr.host),
    proxied: ofMaster.map(({ address: { ip } }) => ip)
      .filter(({ family, isLinkLocal }) =>
        has6 && family === 6 && !isLinkLocal
      ),
    neighbors: ips.map(({ address }) => address.ip)
      .filter(({ family }) => isIpvlan2 && family === 4),
    mac,
    routes,
  };
}

/**
 * Checks that the host accepts a container's packets to an address of the
 * master. ipvlan passes them to the master, from which the strict filter does
 * not accept them.
 *
 * @throws {CniError} 7 if the filter drops them
 */
function checkReversePath(host: Rtnl, { name }: Link): void {
  const [value = 0] = inNetns(
    host.netns,
    () =>
      ["all", name].map((one) =>
        Number(readSysctl(`net/ipv4/conf/${one}/rp_filter`))
      ).sort().reverse(),
  );
  if (value !== 1) return;
  throw invalidConfig(
    `Cannot reach containers from the host: net.ipv4.conf.${name}.rp_filter is 1: set it to 2, or set hostAddresses`,
  );
}

/** Creates what is missing of the access link, and the container's routes. */
async function ensureAccess(
  host: Rtnl,
  call: HostAccessCall,
  access: Access,
): Promise<Link> {
  using _lock = await lockAccessLinks(host, call);
  const { name, addresses, proxied, routes } = access;
  for (const { ip } of addresses) checkHostAddress(host, ip, access);
  const accessLink = host.link.find(name) ?? createAccessLink(host, access);
  const alias = accessLinkAliasOf(call.network);
  if (accessLink.alias !== alias) host.link.set(accessLink.index, { alias });
  prepareAccessLink(host, access);
  makeChanges(
    host,
    listMissingAddresses(host, accessLink, addresses).map((address) =>
      addingAddress(host, accessLink, { address, noPrefixRoute: true })
    ),
  );
  if (!accessLink.isUp) host.link.set(accessLink.index, { isUp: true });
  const { index: ifindex } = accessLink;
  const neighbors = new NeighborRequests(host.socket);
  for (const ip of listUnanswered(host, accessLink, proxied)) {
    withAction(`answer for ${ip} on "${name}"`, () => {
      neighbors.addProxy(ifindex, ip);
    });
  }
  for (const ip of listUnknown(host, accessLink, access)) {
    withAction(`set the neighbour ${ip} of "${name}"`, () => {
      if (access.mac) neighbors.replace(ifindex, ip, access.mac);
    });
  }
  for (const route of routes) {
    withAction(`add route ${route.destination} to "${name}"`, () => {
      host.route.replace({ ...route, ifindex });
    });
  }
  return accessLink;
}

function createAccessLink(host: Rtnl, { name, info, lower }: Access): Link {
  return withAction(`create "${name}" on "${lower.name}"`, () => {
    host.link.addElsewhere({
      netns: host.netns,
      name,
      info,
      lowerIndex: lower.index,
      // The same after each start, since containers remember it.
      mac: info.kind === "macvlan"
        ? Mac.parse(`02${stableName("", name, `${lower.mac}`).slice(0, 10)}`)
        : undefined,
    });
    return host.link.get(name);
  });
}

/**
 * Lets the access link answer containers, and nobody else, for the master's addresses:
 * other hosts must go on to use the master. It learns nothing from routers.
 *
 * Source: Documentation/networking/ip-sysctl.rst `arp_filter`, `proxy_ndp`,
 * net/ipv6/ndisc.c `ndisc_recv_ns`, which forwarding permits to answer.
 */
function prepareAccessLink(host: Rtnl, access: Access): void {
  readyHostEndForIpv6(host.netns, access.name);
  inNetns(host.netns, () => {
    for (const { key, value } of sysctlsOf(access)) tryWriteSysctl(key, value);
  });
}

/** A parameter of the access link. */
interface AccessLinkSysctl {
  readonly key: string;
  readonly value: string;
  /** Whether packets are lost with another value. */
  readonly isVital: boolean;
}

/** Lists the parameters that the access to this container needs. */
function sysctlsOf({ name, routes, proxied }: Access): AccessLinkSysctl[] {
  const has4 = routes.some(({ destination }) => destination.family === 4);
  const arpFilter = `net/ipv4/conf/${name}/arp_filter`;
  const proxyNdp = `net/ipv6/conf/${name}/proxy_ndp`;
  const forwarding = `net/ipv6/conf/${name}/forwarding`;
  const proxyDelay = `net/ipv6/neigh/${name}/proxy_delay`;
  return [
    ...has4 ? [{ key: arpFilter, value: "1", isVital: false }] : [],
    ...proxied.length > 0
      ? [
        { key: proxyNdp, value: "1", isVital: true },
        { key: forwarding, value: "1", isVital: true },
        { key: proxyDelay, value: "0", isVital: false },
      ]
      : [],
  ];
}

/**
 * Checks the access link's parameters.
 *
 * ADD or CHECK may run where /proc/sys is read-only, as in a container. Then only
 * parameters count without which packets are lost: with the others, the access works
 * as well as ADD could make it. ADD also turned `accept_dad` off, if it could, and
 * other programs are unlikely to turn it on for this link.
 *
 * @throws {CniError} 999 if one is different
 */
function checkAccessLink({ netns }: Rtnl, access: Access): void {
  const changed = inNetns(netns, () => {
    const acceptDad = `net/ipv6/conf/${access.name}/accept_dad`;
    const couldWrite = (unlessMissing(() => readSysctl(acceptDad)) ?? "0") ===
      "0";
    return sysctlsOf(access).filter(({ key, value, isVital }) =>
      (isVital || couldWrite && isWritableSysctl(key)) &&
      readSysctl(key) !== value
    );
  });
  throwDifferences(changed.map(({ key, value }) => ({
    msg: `${key.replaceAll("/", ".")} is not ${value}`,
    expected: { kind: "sysctl", netns: netns.path, key, value },
  })));
}

/** @throws {CniError} 7 if the host has the address, or reaches it elsewhere */
function checkHostAddress(
  host: Rtnl,
  ip: Ip,
  { name, lower }: Pick<Access, "name" | "lower">,
): void {
  const entry = host.route.findMatch(ip);
  if (entry === undefined || entry.destination.prefixLength === 0) return;
  const output = host.link.find(entry.nextHops[0]?.ifindex ?? 0)?.name ?? "";
  if (output === name && !entry.isUnicast) return;
  if (output === lower.name && entry.isUnicast && !entry.hasGateway) return;
  throw invalidConfig(
    `Cannot assign ${ip} to the host: it already has ` +
      (entry.isUnicast
        ? `a route to it over "${output}"`
        : `it on "${output}"`),
  );
}

function listUnanswered(
  host: Rtnl,
  { index }: Link,
  proxied: readonly Ip[],
): Ip[] {
  if (proxied.length === 0) return [];
  const present = new NeighborRequests(host.socket).listProxies(index, 6);
  return proxied.filter((ip) => !present.some((one) => one.equals(ip)));
}

function listUnknown(
  { socket }: Rtnl,
  { index: ifindex }: Link,
  { neighbors, mac }: Pick<Access, "neighbors" | "mac">,
): Ip[] {
  if (neighbors.length === 0) return [];
  const present = new NeighborRequests(socket).list({ ifindex, family: 4 });
  return neighbors.filter((ip) =>
    !present.some((one) =>
      one.isPermanent && one.ip.equals(ip) && mac && one.mac?.equals(mac)
    )
  );
}

/** Deletes routes of containers of the network, and access links without any. */
async function deleteRoutes(
  call: HostAccessCall,
  isMeant: (route: Route) => boolean,
): Promise<void> {
  using host = Rtnl.open(call.hostNetns);
  using _lock = await lockAccessLinks(host, call);
  const alias = accessLinkAliasOf(call.network);
  const unused = listAccessLinks(host).filter((link) =>
    // A killed ADD may not have named the network.
    (link.alias ?? alias) === alias &&
    deleteRoutesOf(host, link, isMeant) === 0
  );
  if (unused.length > 0) await deleteNow(unused, call);
}

/**
 * Deletes routes of containers by an access link.
 *
 * @returns How many are left
 */
export function deleteRoutesOf(
  host: Rtnl,
  accessLink: Link,
  isMeant: (route: Route) => boolean,
): number {
  const routes = listContainerRoutes(host, accessLink);
  const meant = routes.filter(isMeant);
  const neighbors = new NeighborRequests(host.socket);
  for (const { destination, priority } of meant) {
    withAction(`delete route ${destination} of "${accessLink.name}"`, () => {
      ignoreMissing(() =>
        host.route.del({ destination, priority, ifindex: accessLink.index })
      );
      if (accessLink.kind !== "ipvlan" || destination.family === 6) return;
      ignoreMissing(() => neighbors.del(accessLink.index, destination.ip));
    });
  }
  return routes.length - meant.length;
}

/** Deletes an object that another process may have deleted. */
function ignoreMissing(remove: () => void): void {
  try {
    remove();
  } catch (error) {
    if (!isErrno(error, "ESRCH", "ENODEV", "ENOENT")) throw error;
  }
}

/** Lists the routes to containers by an access link. */
export function listContainerRoutes(host: Rtnl, { index }: Link): Route[] {
  try {
    return host.route.list({ ifindex: index }).filter(({ destination }) =>
      destination.prefixLength === destination.ip.bitLength
    );
  } catch (error) {
    if (isErrno(error, "ENODEV")) return [];
    throw error;
  }
}

/** Lists the access links, without reading the host's ends of other containers. */
export function listAccessLinks(host: Rtnl): Link[] {
  return (["macvlan", "ipvlan"] as const)
    .flatMap((kind) => host.link.list({ kind }))
    .filter(({ name }) => isAccessLinkName(name));
}

/** Returns the alias of a network's access links, which have no container. */
function accessLinkAliasOf(network: string): string {
  return aliasPrefixOf(network).slice(0, -1);
}

/** Returns the metric of an attachment's routes: any other route is preferred. */
function metricOf({ network, containerId, ifName }: Attachment): number {
  const hash = stableName("", network, containerId, ifName);
  return (Number.parseInt(hash.slice(0, 8), 16) | 0x8000_0000) >>> 0;
}

/**
 * Locks out other calls, which may create or delete the same access link.
 *
 * @throws {CniError} 11 if others take too long
 */
export function lockAccessLinks(
  { netns }: Rtnl,
  { log, signal }: Pick<Call, "log" | "signal">,
): Promise<Disposable> {
  const what = "the host's links to macvlans and ipvlans";
  return lockPrivately(`shims-${netnsIdOf(netns)}`, {
    what,
    log,
    signal,
  });
}
