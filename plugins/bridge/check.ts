/**
 * CHECK of the bridge, its port and the container's end of the veth pair.
 *
 * @module
 */

import type { Call } from "../../cni/plugin.ts";
import type { Interface, Result } from "../../cni/result/result.ts";
import { filtersVlans, type Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import {
  checkAddresses,
  checkConfigured,
  checkConnected,
  checkFailure,
  checkForwarding,
  checkLink,
  checkLinkThere,
  checkRoutes,
  sandboxInterfaceOf,
  throwDifferences,
} from "../parts/link/check_link.ts";
import type { Differences } from "../../cni/call/differences.ts";
import { withAction } from "../parts/link/configure_link.ts";
import type { BridgeConfig } from "./schema.ts";
import { routesToContainers } from "./gateway.ts";
import { gatewayAddressesOf } from "./inspect.ts";
import {
  type BridgeSettings,
  hasVlans,
  vlanGatewayNameOf,
} from "./settings.ts";

/** The data to compare: both namespaces, the result of ADD and the settings. */
export interface Checked {
  /** The host's namespace. */
  readonly host: Rtnl;
  /** The container's namespace. */
  readonly sandbox: Rtnl;
  /** The CHECK. */
  readonly call: Call<BridgeConfig>;
  /** Settings of the call. */
  readonly settings: BridgeSettings;
  /** The attachment's own part of prevResult. */
  readonly result: Result;
}

/** Both ends of the veth pair; undefined if missing or replaced by another link. */
export interface CheckedPair {
  /** The veth pair's end in the host. */
  readonly port: Link | undefined;
  /** The veth pair's end in the container. */
  readonly container: Link | undefined;
}

/**
 * Checks the links from the container to the bridge, and their settings.
 *
 * @param differences Collects deviations from ADD's result
 */
export async function checkLinks(
  differences: Differences,
  checked: Checked,
): Promise<CheckedPair> {
  const container = await differences.collect(() => findContainerEnd(checked));
  if (container) await checkContainerEnd(differences, checked, container);
  const bridge = await differences.collect(() => findBridge(checked));
  if (bridge) await checkBridge(differences, checked, bridge);
  const port = container &&
    await differences.collect(() => findPort(checked, container));
  if (port) await checkPort(differences, checked, { bridge, container, port });
  return { port, container };
}

function findContainerEnd(
  { sandbox, call, settings, result }: Checked,
): Link {
  const expected = sandboxInterfaceOf(result, call.args);
  const check = settings.leavesContainerDown ? checkLinkThere : checkLink;
  return check(sandbox, expected, "veth");
}

async function checkContainerEnd(
  differences: Differences,
  { sandbox, result }: Checked,
  link: Link,
): Promise<void> {
  await checkConfigured(differences, sandbox, link, result);
}

function findBridge({ host, settings, result }: Checked): Link {
  const { name, mac } = hostInterfaceOf(result, settings.bridge);
  // The Go plugin does not keep the MAC of a bridge without addresses.
  const isKept = settings.isLayer3 && settings.isGateway;
  return checkLink(host, { name, mac: isKept ? mac : undefined }, "bridge");
}

async function checkBridge(
  differences: Differences,
  checked: Checked,
  link: Link,
): Promise<void> {
  const { settings } = checked;
  await differences.collect(() => {
    if (!settings.promiscuous || link.isPromiscuous) return;
    throw checkFailure(`Bridge "${link.name}" is not promiscuous`);
  });
  await differences.collect(() => {
    if (!hasVlans(settings) || filtersVlans(link)) return;
    throw checkFailure(`Bridge "${link.name}" does not filter VLANs`);
  });
  if (settings.isLayer3 && settings.isGateway) {
    await checkGateway(differences, checked, link);
  }
}

/** Finds an interface of the host in the result. */
function hostInterfaceOf({ interfaces }: Result, name: string): Interface {
  const found = interfaces.find((one) => one.name === name && !one.sandbox);
  if (found !== undefined) return found;
  throw checkFailure(`prevResult has no interface "${name}" of the host`);
}

function findPort({ host, result }: Checked, { name, linkIndex }: Link): Link {
  const peer = withAction(
    `find the other end of "${name}"`,
    () => linkIndex === undefined ? undefined : host.link.find(linkIndex),
  );
  if (peer === undefined) {
    throw checkFailure(`"${name}" is not connected to the host`);
  }
  return checkLink(host, hostInterfaceOf(result, peer.name), "veth");
}

async function checkPort(
  differences: Differences,
  checked: Checked,
  { bridge, container, port }: {
    readonly bridge: Link | undefined;
    readonly container: Link;
    readonly port: Link;
  },
): Promise<void> {
  const { hairpin, isolated } = checked.settings;
  await differences.collect(() => checkConnected(port, container));
  await differences.collect(() => {
    if (bridge === undefined || port.masterIndex === bridge.index) return;
    throw checkFailure(`"${port.name}" is not a port of "${bridge.name}"`, {
      kind: "link",
      netns: checked.host.netns.path,
      link: port.name,
      master: bridge.name,
    });
  });
  const options: readonly PortOption[] = [
    ["hairpin", "hairpin mode", hairpin],
    ["isolated", "isolation", isolated],
  ];
  for (const option of options) {
    await differences.collect(() => checkPortOption(checked, port, option));
  }
  await differences.collect(() => checkVlans(checked, port));
}

/** An option of a bridge port, its name in texts, and whether it must be on. */
type PortOption = readonly [
  key: "hairpin" | "isolated",
  name: string,
  isWanted: boolean,
];

function checkPortOption(
  { host }: Checked,
  { name: link, port }: Link,
  [key, name, isWanted]: PortOption,
): void {
  const isOn = port?.[key];
  if (isOn === isWanted) return;
  throw checkFailure(`"${link}" has ${name} ${isOn ? "on" : "off"}`, {
    kind: "link",
    netns: host.netns.path,
    link,
    [key]: isWanted,
  });
}

async function checkVlans(
  { host, settings }: Checked,
  port: Link,
): Promise<void> {
  if (!hasVlans(settings)) return;
  const { listVlanDifferences } = await import("./port_vlans.ts");
  throwDifferences(listVlanDifferences(host, port, settings));
}

async function checkGateway(
  differences: Differences,
  checked: Checked,
  bridge: Link,
): Promise<void> {
  const { host, result } = checked;
  const link = await differences.collect(() =>
    checkGatewayLink(checked, bridge)
  );
  const gateways = gatewayAddressesOf(result.ips);
  if (link) {
    await differences.collect(() => checkAddresses(host, link, gateways));
    const routes = routesToContainers(result.ips);
    await differences.collect(() => checkRoutes(host, link, routes, "main"));
  }
  await differences.collect(() =>
    checkForwarding(host.netns, gateways, link?.name ?? bridge.name)
  );
}

/**
 * Returns the link with the gateway's addresses: the bridge, or the VLAN's
 * interface.
 */
async function checkGatewayLink(
  { host, settings, result }: Checked,
  bridge: Link,
): Promise<Link> {
  const { vlan } = settings;
  if (vlan === undefined) return bridge;
  const name = vlanGatewayNameOf(settings, vlan);
  const link = checkLink(host, hostInterfaceOf(result, name));
  const { listVlanGatewayDifferences } = await import("./port_vlans.ts");
  throwDifferences(listVlanGatewayDifferences(host, bridge, link, settings));
  return link;
}
