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
  checkRoutes,
  compareLink,
  sandboxInterfaceOf,
  throwDifferences,
} from "../parts/link/check_link.ts";
import { Differences } from "../../cni/call/differences.ts";
import { checkMasqueraded } from "../parts/firewall/masquerade/steps.ts";
import { attachmentOf } from "../parts/owner/attachment.ts";
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

/**
 * Checks the leases, the links, the rules against spoofing and the masquerade.
 *
 * @throws {CniError} With all differences from ADD's result
 */
export async function checkAttachment(checked: Checked): Promise<void> {
  const { call, settings, result } = checked;
  const differences = new Differences();
  if (settings.isLayer3) {
    await differences.collect(() => call.ipam.check());
  }
  const { port, container } = await checkLinks(differences, checked);
  if (settings.checksSpoofing && port && container) {
    const { checkSpoofCheck } = await import("./mac_spoofing.ts");
    const attachment = attachmentOf(call);
    const end = { hostIfName: port.name, mac: container.mac };
    await differences
      .collect(() => checkSpoofCheck(call.hostNetns, attachment, end));
  }
  const addresses = result.ips.map(({ address }) => address);
  await differences.collect(() => checkMasqueraded(call, addresses));
  differences.throwAny();
}

/** Both ends of the veth pair; undefined if missing or replaced by another link. */
interface CheckedPair {
  /** The veth pair's end in the host. */
  readonly port: Link | undefined;
  /** The veth pair's end in the container. */
  readonly container: Link | undefined;
}

/** Checks the links from the container to the bridge, and their settings. */
async function checkLinks(
  differences: Differences,
  checked: Checked,
): Promise<CheckedPair> {
  const container = await differences.collect(() =>
    findContainerEnd(differences, checked)
  );
  if (container) await checkContainerEnd(differences, checked, container);
  const bridge = await differences.collect(() =>
    findBridge(differences, checked)
  );
  if (bridge) await checkBridge(differences, checked, bridge);
  const port = container &&
    await differences.collect(() => findPort(differences, checked, container));
  if (port) await checkPort(differences, checked, { bridge, container, port });
  return { port, container };
}

function findContainerEnd(
  differences: Differences,
  { sandbox, call, settings, result }: Checked,
): Link {
  const expected = sandboxInterfaceOf(result, call.args);
  return compareLink(differences, sandbox, expected, {
    kind: "veth",
    mayBeDown: settings.leavesContainerDown,
  });
}

async function checkContainerEnd(
  differences: Differences,
  { sandbox, result }: Checked,
  link: Link,
): Promise<void> {
  await checkConfigured(differences, sandbox, link, result);
}

function findBridge(
  differences: Differences,
  { host, settings, result }: Checked,
): Link {
  const { name, mac } = hostInterfaceOf(result, settings.bridge);
  // The Go plugin does not keep the MAC of a bridge without addresses.
  const isKept = settings.isLayer3 && settings.isGateway;
  const expected = { name, mac: isKept ? mac : undefined };
  return compareLink(differences, host, expected, { kind: "bridge" });
}

async function checkBridge(
  differences: Differences,
  checked: Checked,
  link: Link,
): Promise<void> {
  const { settings } = checked;
  if (settings.promiscuous && !link.isPromiscuous) {
    differences.add({ msg: `Bridge "${link.name}" is not promiscuous` });
  }
  if (hasVlans(settings) && !filtersVlans(link)) {
    differences.add({ msg: `Bridge "${link.name}" does not filter VLANs` });
  }
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

function findPort(
  differences: Differences,
  { host, result }: Checked,
  { name, linkIndex }: Link,
): Link {
  const peer = withAction(
    `find the other end of "${name}"`,
    () => linkIndex === undefined ? undefined : host.link.find(linkIndex),
  );
  if (peer === undefined) {
    throw checkFailure(`"${name}" is not connected to the host`);
  }
  const expected = hostInterfaceOf(result, peer.name);
  return compareLink(differences, host, expected, { kind: "veth" });
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
  const { host: { netns }, settings: { hairpin, isolated } } = checked;
  const { name: link } = port;
  const own = { kind: "link", netns: netns.path, link } as const;
  await differences.collect(() => checkConnected(port, container));
  if (bridge !== undefined && port.masterIndex !== bridge.index) {
    differences.add({
      msg: `"${link}" is not a port of "${bridge.name}"`,
      expected: { ...own, master: bridge.name },
    });
  }
  const options: readonly PortOption[] = [
    ["hairpin", "hairpin mode", hairpin],
    ["isolated", "isolation", isolated],
  ];
  for (const [key, name, isWanted] of options) {
    const isOn = port.port?.[key];
    if (isOn === isWanted) continue;
    differences.add({
      msg: `"${link}" has ${name} ${isOn ? "on" : "off"}`,
      expected: { ...own, [key]: isWanted },
    });
  }
  await differences.collect(() => checkVlans(checked, port));
}

/** An option of a bridge port, its name in texts, and whether it must be on. */
type PortOption = readonly [
  key: "hairpin" | "isolated",
  name: string,
  isWanted: boolean,
];

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
    findGatewayLink(differences, checked, bridge)
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
async function findGatewayLink(
  differences: Differences,
  { host, settings, result }: Checked,
  bridge: Link,
): Promise<Link> {
  const { vlan } = settings;
  if (vlan === undefined) return bridge;
  const name = vlanGatewayNameOf(settings, vlan);
  const expected = hostInterfaceOf(result, name);
  const link = compareLink(differences, host, expected, {});
  const { listVlanGatewayDifferences } = await import("./port_vlans.ts");
  differences.add(...listVlanGatewayDifferences(host, bridge, link, settings));
  return link;
}
