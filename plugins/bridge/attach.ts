/**
 * The steps of ADD, in order.
 *
 * @module
 */

import { JoinedSignal } from "../../base/deadline.ts";
import type { Rollback } from "../../base/rollback.ts";
import type { Call } from "../../cni/plugin.ts";
import {
  emptyResult,
  type Interface,
  type Result,
} from "../../cni/result/result.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { isAnnouncementSuppressed } from "../../cni/result/announcement.ts";
import { announce } from "../parts/address/announce.ts";
import { attachmentOf } from "../parts/owner/attachment.ts";
import { withAction } from "../parts/link/configure_link.ts";
import { requestedIpsOf } from "../parts/address/free_ip.ts";
import {
  ensureForwarding,
  tryForwardFrom,
} from "../parts/address/ip_forward.ts";
import {
  awaitDetection,
  configureInterface,
  leaseAddresses,
} from "../parts/address/sandbox_addresses.ts";
import { describeLink } from "../parts/link/describe_link.ts";
import {
  type ConnectedVeth,
  connectVeth,
  findOwnHostEnd,
  lookUpVeth,
  type Veth,
} from "../parts/link/veth.ts";
import type { BridgeConfig } from "./schema.ts";
import {
  deleteOwnRoutes,
  ensureGatewayAddresses,
  ensureRoutes,
  routedThroughBridge,
  routesToContainers,
} from "./gateway.ts";
import { gatewayAddressesOf } from "./inspect.ts";
import { type BridgeSettings, hasVlans } from "./settings.ts";

/** An ADD in progress. */
export interface Adding {
  /** Borrowed, like all of these. */
  readonly call: Call<BridgeConfig>;
  /** Settings of the call. */
  readonly settings: BridgeSettings;
  /** The host's namespace. */
  readonly host: Rtnl;
  /** The container's namespace. */
  readonly sandbox: Rtnl;
  /** Collects the undo of every step. */
  readonly rollback: Rollback;
}

/**
 * Reserves the requested MAC among the ports of the bridge.
 *
 * @returns The lock, to be held until the port has the MAC
 * @throws {CniError} 11 if another port has it
 */
export async function reserveMac(
  call: Call<BridgeConfig>,
  host: Rtnl,
  { bridge: name, mac }: BridgeSettings,
): Promise<Disposable> {
  const { checkMacIsFree, lockMac } = await import("../parts/link/free_mac.ts");
  using stack = new DisposableStack();
  stack.use(await lockMac(host, { bridge: name, mac }, call));
  const bridge = host.link.find(name);
  if (bridge !== undefined) {
    // A veth pair that an earlier ADD has left is replaced.
    const own = findOwnHostEnd(host, attachmentOf(call));
    checkMacIsFree(host, { bridge, mac }, ({ index }) => index === own?.index);
  }
  return stack.move();
}

/**
 * Requests addresses, if the container gets any.
 *
 * @throws {CniError} The IPAM plugin's; 7 if its result is invalid, or 7 and 11
 *   if the call asked for an address that another has
 */
export async function leaseRoutedAddresses(
  { call, settings, host, rollback }: Adding,
): Promise<Result> {
  if (!settings.isLayer3) return emptyResult();
  const lease = await leaseAddresses(call, rollback, { mayBeEmpty: true });
  const routed = { ...lease, ...routedThroughBridge(lease, settings) };
  if (requestedIpsOf(routed, call).length > 0) {
    const { checkRequested } = await import("./requested.ts");
    checkRequested({ call, settings, host }, routed);
  }
  return routed;
}

/**
 * Creates the veth pair; from the start, its host end is a port of the bridge.
 *
 * @param bridge The bridge
 * @throws {Error} If the kernel refuses
 */
export async function connectToBridge(
  { call, settings, host, sandbox, rollback }: Adding,
  bridge: Link,
): Promise<ConnectedVeth> {
  const { mtu, mac, hairpin, isolated } = settings;
  const attachment = attachmentOf(call);
  const veth = connectVeth(host, sandbox, attachment, {
    mtu,
    mac,
    masterIndex: bridge.index,
  });
  rollback.onFailure(`delete "${veth.host.name}"`, async () => {
    const { deleteNow } = await import("../parts/link/delete_links.ts");
    await deleteNow([veth.host], call);
  });
  if (hairpin || isolated) {
    const { index, name } = veth.host;
    withAction(`set up port "${name}"`, () => {
      host.link.set(index, { port: { hairpin, isolated } });
    });
  }
  if (hasVlans(settings)) {
    const { setPortVlans } = await import("./port_vlans.ts");
    setPortVlans(host, veth.host, settings);
  }
  return veth;
}

/**
 * Drops frames from other MACs than the container's, from the first frame on.
 *
 * @throws {Error} If the kernel refuses
 */
export async function dropSpoofedFrames(
  { call, settings, host, rollback }: Adding,
  veth: Veth,
): Promise<void> {
  if (!settings.checksSpoofing) return;
  const { setUpSpoofCheck, tearDownSpoofCheck } = await import(
    "./mac_spoofing.ts"
  );
  const attachment = attachmentOf(call);
  // After the veth pair, and not if that could not be deleted.
  rollback.onFailureLast(
    "remove the rules against MAC spoofing",
    () => tearDownSpoofCheck(host, attachment),
  );
  await setUpSpoofCheck(call.hostNetns, attachment, {
    hostIfName: veth.host.name,
    mac: settings.mac,
  });
}

/**
 * Replaces addresses that other machines on the bridge have, if the configuration
 * says so. The container's end is then up.
 *
 * @throws {CniError} 11 if the IPAM plugin gives no other address
 */
export async function avoidConflicts(
  { call, settings, host, sandbox }: Adding,
  veth: Veth,
  lease: Result,
): Promise<Result> {
  if (!settings.checksConflicts || !settings.isLayer3) return lease;
  const { findUnusedAddresses } = await import(
    "../parts/address/conflict_check.ts"
  );
  // configureContainer() announces the addresses.
  await using checked = await findUnusedAddresses({
    call,
    sandbox,
    link: veth.container,
    lease,
    ipv6: settings,
    settle: () => settlePort(host, sandbox, veth),
  });
  return checked.lease === lease
    ? lease
    : { ...checked.lease, ...routedThroughBridge(checked.lease, settings) };
}

/**
 * Configures the container's end, and announces it to its neighbours once the
 * bridge forwards its frames.
 *
 * @throws {Error} If the kernel refuses, or another host has an address
 */
export async function configureContainer(
  adding: Adding,
  veth: Veth,
  lease: Result,
): Promise<Veth<Link>> {
  const { settings, host, sandbox } = adding;
  if (settings.leavesContainerDown) return lookUpVeth(host, sandbox, veth);
  configureInterface(sandbox, veth.container, lease, settings);
  const ends = await settlePort(host, sandbox, veth);
  if (lease.ips.length === 0) return ends;
  if (settings.detectsDuplicates) {
    await awaitDetection(sandbox, veth.container, lease);
  }
  if (!isAnnouncementSuppressed(lease)) announce(sandbox, ends.container);
  return ends;
}

/**
 * Gives the host the gateway's addresses, in the container's VLAN if it has
 * one. This is the last step: the addresses stay if a later step fails, as
 * another attachment may be using them by then.
 *
 * @param bridge The bridge
 * @returns Additional interfaces of the result
 * @throws {CniError} 7 if another address is in the way
 * @throws {Error} If the kernel refuses
 */
export async function becomeGateway(
  { call, settings, host, rollback }: Adding,
  bridge: Link,
  { ips }: Result,
): Promise<Interface[]> {
  const { isGateway, vlan, forceAddress } = settings;
  if (!isGateway || ips.length === 0) return [];
  // What a call asks for replaces no gateway.
  const force = forceAddress &&
    requestedIpsOf({ ips }, call).length === 0;
  const gateways = gatewayAddressesOf(ips);
  // What may fail comes before the VLAN's link, which stays.
  ensureForwarding(host.netns, gateways);
  const link = vlan === undefined ? bridge : (await import("./port_vlans.ts"))
    .ensureVlanGateway(host, bridge, settings, vlan);
  tryForwardFrom(host.netns, gateways, link.name);
  ensureGatewayAddresses(host, link, { gateways, force });
  rollback.onFailure("delete the routes to the addresses", () => {
    deleteOwnRoutes(call, [link.name], ips);
  });
  ensureRoutes(host, link, routesToContainers(ips));
  return link === bridge ? [] : [describeLink(link)];
}

/** Time limit for the bridge's port to start forwarding, in ms. */
const PORT_TIMEOUT_MS = 2_500;

/**
 * Waits until the bridge's port forwards. Most kernels report that at once,
 * some take a little longer.
 *
 * @returns Both ends
 * @throws {Error} If the port does not start forwarding in time
 */
async function settlePort(
  host: Rtnl,
  sandbox: Rtnl,
  veth: Veth,
): Promise<Veth<Link>> {
  const ends = lookUpVeth(host, sandbox, veth);
  if (ends.host.isOperational) return ends;
  const { pollUntil } = await import("../../base/waiting.ts");
  using limit = new JoinedSignal(PORT_TIMEOUT_MS);
  return await pollUntil(() => {
    const ends = lookUpVeth(host, sandbox, veth);
    return ends.host.isOperational ? ends : undefined;
  }, {
    signal: limit.signal,
    giveUp: () => new Error("bridge port in error state: down"),
  });
}
