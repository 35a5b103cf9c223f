/**
 * CHECK of the bridge, its port and the container's end of the cable.
 *
 * @module
 */

import type { Call } from "../../cni/plugin.ts";
import type { Interface, Result } from "../../cni/result.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Route as KernelRoute } from "../../ffi/rtnl/route.ts";
import type { Cidr } from "../../net/cidr.ts";
import {
  checkAddresses,
  checkConnected,
  checkFailure,
  checkForwarding,
  checkLink,
  checkLinkThere,
  checkRoutes,
  sandboxInterfaceOf,
} from "../_shared/check_link.ts";
import type { BridgeConfig } from "./config.ts";
import { containerRoutes } from "./container.ts";
import { gatewayAddressesOf } from "./gateway.ts";
import {
  type BridgeSettings,
  hasVlans,
  vlanGatewayNameOf,
} from "./settings.ts";

/** What is compared: both namespaces, what was left in them and what is asked for. */
export interface Checked {
  /** The host's namespace. */
  readonly host: Rtnl;
  /** The container's namespace. */
  readonly sandbox: Rtnl;
  /** The CHECK. */
  readonly call: Call<BridgeConfig>;
  /** What the call asks for. */
  readonly settings: BridgeSettings;
  /** The attachment's own part of prevResult. */
  readonly result: Result;
}

/** The links of one attachment. */
export interface CheckedLinks {
  /** The bridge. */
  readonly bridge: Link;
  /** The cable's end in the host. */
  readonly port: Link;
  /** The cable's end in the container. */
  readonly container: Link;
}

/**
 * Checks the links, from the container to the bridge, and what each of them has.
 *
 * @returns The links
 * @throws {CniError} 999 if something is not as ADD left it
 */
export async function checkLinks(checked: Checked): Promise<CheckedLinks> {
  const container = checkContainerEnd(checked);
  const bridge = checkBridge(checked);
  const port = checkPort(checked, { bridge, container });
  await checkVlans(checked, port);
  if (checked.settings.isLayer3) checkGateway(checked, bridge);
  return { bridge, port, container };
}

function checkContainerEnd(
  { sandbox, call, settings, result }: Checked,
): Link {
  const expected = sandboxInterfaceOf(result, call.args);
  const check = settings.leavesContainerDown ? checkLinkThere : checkLink;
  const link = check(sandbox, expected, "veth");
  const addresses = result.ips.map(({ address }) => address);
  checkAddresses(sandbox, link, addresses);
  checkRoutes(sandbox, link, [
    ...subnetRoutes(addresses),
    ...containerRoutes(result),
  ], "any");
  return link;
}

/** Lists the kernel's routes, without which no neighbour can be reached. */
function subnetRoutes(addresses: readonly Cidr[]): KernelRoute[] {
  return addresses
    .filter(({ ip, prefixLength }) => prefixLength < ip.bitLength)
    .map((address) => ({ destination: address.masked() }));
}

function checkBridge({ host, settings, result }: Checked): Link {
  const { name, mac } = hostInterfaceOf(result, settings.bridge);
  // The MAC of one that nobody has an address on is not ours to keep.
  const isKept = settings.isLayer3 && settings.isGateway;
  const link = checkLink(
    host,
    { name, mac: isKept ? mac : undefined },
    "bridge",
  );
  if (settings.promiscuous && !link.isPromiscuous) {
    throw checkFailure(`Bridge "${link.name}" is not promiscuous`);
  }
  if (hasVlans(settings) && !link.hasVlanFiltering) {
    throw checkFailure(`Bridge "${link.name}" does not tell VLANs apart`);
  }
  return link;
}

/** Finds an interface of the host in the result. */
function hostInterfaceOf({ interfaces }: Result, name: string): Interface {
  const found = interfaces.find((one) => one.name === name && !one.sandbox);
  if (found !== undefined) return found;
  throw checkFailure(`prevResult has no interface "${name}" of the host`);
}

function checkPort(
  { host, settings, result }: Checked,
  { bridge, container }: Omit<CheckedLinks, "port">,
): Link {
  const { linkIndex } = container;
  const peer = linkIndex === undefined ? undefined : host.link.find(linkIndex);
  if (peer === undefined) {
    throw checkFailure(`"${container.name}" is not connected to the host`);
  }
  const port = checkLink(host, hostInterfaceOf(result, peer.name), "veth");
  checkConnected(port, container);
  if (port.masterIndex !== bridge.index) {
    throw checkFailure(`"${port.name}" is no port of "${bridge.name}"`);
  }
  checkPortOption(port, "hairpin mode", port.hasHairpin, settings.hairpin);
  checkPortOption(port, "isolation", port.isIsolated, settings.isolated);
  return port;
}

function checkPortOption(
  { name }: Link,
  option: string,
  isOn: boolean,
  isWanted: boolean,
): void {
  if (isOn === isWanted) return;
  throw checkFailure(`"${name}" has ${option} ${isOn ? "on" : "off"}`);
}

async function checkVlans(
  { host, settings }: Checked,
  port: Link,
): Promise<void> {
  if (!hasVlans(settings)) return;
  const { findVlanProblem } = await import("./port_vlans.ts");
  const problem = findVlanProblem(host, port, settings);
  if (problem !== undefined) throw checkFailure(problem);
}

function checkGateway(
  { host, settings, result }: Checked,
  bridge: Link,
): void {
  if (!settings.isGateway) return;
  const { vlan } = settings;
  const link = vlan === undefined ? bridge : checkLink(
    host,
    hostInterfaceOf(result, vlanGatewayNameOf(settings, vlan)),
  );
  const gateways = gatewayAddressesOf(result.ips);
  checkAddresses(host, link, gateways);
  checkForwarding(host.netns, gateways);
}
