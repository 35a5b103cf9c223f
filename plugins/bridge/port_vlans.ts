/**
 * VLANs of a port, and the host's interface in a VLAN.
 *
 * @module
 */

import type { Difference } from "../../cni/call/differences.ts";
import { isErrno } from "../../ffi/errno.ts";
import {
  BridgeVlanRequests,
  type PortVlans,
} from "../../ffi/rtnl/bridge_vlan.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Mac } from "../../net/mac.ts";
import { withAction } from "../parts/link/configure_link.ts";
import { readyHostEndForIpv6 } from "../parts/address/ipv6.ts";
import { stableName } from "../parts/owner/stable_name.ts";
import type { LinkEnd } from "../parts/link/veth.ts";
import { type BridgeSettings, vlanGatewayNameOf } from "./settings.ts";
import type { VlanRange } from "./trunk.ts";

/** The VLANs' part of the settings. */
export type WantedVlans = Pick<
  BridgeSettings,
  "vlan" | "trunk" | "preservesDefaultVlan"
>;

/** Changes of a port's VLANs. */
export interface VlanPlan {
  /** VLANs to remove first. */
  readonly remove: readonly PortVlans[];
  /** VLANs that are missing or have the wrong tagging. */
  readonly add: readonly PortVlans[];
}

/** The default VLAN of a trunk's untagged frames. */
const NATIVE_VLAN = 1;

/**
 * Returns the VLAN that a port gets for untagged frames.
 *
 * @param bridge Filters VLANs
 * @returns 0 for none
 */
export function untaggedVlanOf(
  { vlan, trunk, preservesDefaultVlan }: WantedVlans,
  { data }: Link,
): number {
  if (vlan !== undefined) return vlan;
  const standard = data?.kind === "bridge" ? data.defaultVlan : 0;
  if (trunk.length === 0) return standard;
  return preservesDefaultVlan && standard !== 0 ? standard : NATIVE_VLAN;
}

/**
 * Plans which VLANs a port still needs, and which ones to remove: those that
 * the bridge gives every port, unless they are to be kept.
 *
 * Source: containernetworking/plugins plugins/main/bridge/bridge.go
 * `setupVeth`.
 *
 * @param present One VLAN each
 */
export function planPortVlans(
  present: readonly PortVlans[],
  wanted: WantedVlans,
): VlanPlan {
  const all = wantedVlansOf(present, wanted);
  const isWanted = ({ first: id }: PortVlans): boolean =>
    all.some(({ first, last }) => first <= id && id <= last);
  return {
    remove: wanted.preservesDefaultVlan
      ? []
      : present.filter((one) => !isWanted(one)),
    add: all.filter((one) => !isComplete(one, present)),
  };
}

function wantedVlansOf(
  present: readonly PortVlans[],
  { vlan, trunk, preservesDefaultVlan }: WantedVlans,
): PortVlans[] {
  const keepsNative = preservesDefaultVlan &&
    present.some(({ isPvid }) => isPvid);
  const native = vlan ?? (keepsNative ? undefined : NATIVE_VLAN);
  if (native === undefined) return [...trunk];
  return [
    { first: native, last: native, isPvid: true, isUntagged: true },
    // A second time among the tagged ones, it would be tagged.
    ...trunk.flatMap((range) => without(range, native)),
  ];
}

/** Removes a VLAN from a range; returns up to two ranges. */
function without({ first, last }: VlanRange, id: number): VlanRange[] {
  if (id < first || id > last) return [{ first, last }];
  return [{ first, last: id - 1 }, { first: id + 1, last }]
    .filter((range) => range.first <= range.last);
}

/**
 * Reports whether a port has all VLANs of a range, tagged or untagged as
 * wanted.
 */
function isComplete(wanted: PortVlans, present: readonly PortVlans[]): boolean {
  const { first, last, isPvid = false, isUntagged = false } = wanted;
  const found = present.filter((one) =>
    first <= one.first && one.first <= last &&
    isPvid === (one.isPvid ?? false) &&
    isUntagged === (one.isUntagged ?? false)
  );
  return found.length === last - first + 1;
}

/**
 * Sets the VLANs of a port.
 *
 * @throws {Error} If the kernel refuses
 */
export function setPortVlans(
  host: Rtnl,
  port: LinkEnd,
  wanted: WantedVlans,
): void {
  const requests = new BridgeVlanRequests(host.socket);
  withAction(`set the VLANs of "${port.name}"`, () => {
    const { remove, add } = planPortVlans(requests.list(port.index), wanted);
    for (const { first, last } of remove) {
      requests.del(port.index, { first, last });
    }
    for (const vlans of add) requests.add(port.index, vlans);
  });
}

/**
 * Compares a port's VLANs with the settings.
 *
 * @returns None if they match
 */
export function listVlanDifferences(
  host: Rtnl,
  port: LinkEnd,
  wanted: WantedVlans,
): readonly Difference[] {
  const present = new BridgeVlanRequests(host.socket).list(port.index);
  const { remove, add } = planPortVlans(present, wanted);
  return [
    ...add.map(({ first, last, isUntagged = false }): Difference => ({
      msg: `"${port.name}" lacks VLAN ${formatRange({ first, last })}`,
      expected: {
        kind: "vlan",
        netns: host.netns.path,
        link: port.name,
        first,
        last,
        isUntagged,
      },
    })),
    ...joined(remove).map((surplus) => ({
      msg: `"${port.name}" is also in VLAN ${formatRange(surplus)}`,
    })),
  ];
}

/** Joins neighbouring VLANs to ranges. */
function joined(vlans: readonly VlanRange[]): VlanRange[] {
  const ranges: VlanRange[] = [];
  for (const { first, last } of vlans) {
    const before = ranges.at(-1);
    if (before?.last === first - 1) {
      ranges.splice(-1, 1, { first: before.first, last });
    } else {
      ranges.push({ first, last });
    }
  }
  return ranges;
}

function formatRange({ first, last }: VlanRange): string {
  return first === last ? `${first}` : `${first}-${last}`;
}

/**
 * Ensures that the host has an interface in a VLAN of the bridge: the end of a
 * veth whose other end is a port. All attachments share it, and none deletes
 * it.
 *
 * @param link The bridge
 * @throws {Error} If the kernel refuses
 */
export function ensureVlanGateway(
  host: Rtnl,
  link: Link,
  settings: Pick<BridgeSettings, "bridge" | "preservesDefaultVlan">,
  vlan: number,
): Link {
  const name = vlanGatewayNameOf(settings, vlan);
  return withAction(`create "${name}"`, () => {
    const gateway = host.link.find(name) ??
      addVlanGateway(host, link, { name, vlan });
    // The attachment that created it might not have set its VLANs yet.
    const port = findPort(host, link, gateway);
    if (port !== undefined) {
      setPortVlans(host, port, { ...settings, vlan, trunk: [] });
    }
    if (!gateway.isUp) host.link.set(gateway.index, { isUp: true });
    return gateway;
  });
}

/**
 * Compares the VLANs of the port behind a VLAN's gateway with the settings.
 *
 * @param link The bridge
 * @returns None if they match, or the gateway is not a veth
 */
export function listVlanGatewayDifferences(
  host: Rtnl,
  link: Link,
  gateway: Link,
  settings: WantedVlans,
): readonly Difference[] {
  const port = findPort(host, link, gateway);
  if (port === undefined) return [];
  return listVlanDifferences(host, port, { ...settings, trunk: [] });
}

/**
 * Finds the port at the other end. An operator may have created another kind of
 * interface, without a port.
 */
function findPort(
  host: Rtnl,
  bridge: Link,
  { index, linkIndex, linkNsid }: Link,
): Link | undefined {
  if (!linkIndex || linkNsid !== undefined) return undefined;
  const port = host.link.find(linkIndex);
  const isPort = port?.linkIndex === index && port.linkNsid === undefined &&
    port.masterIndex === bridge.index;
  return isPort ? port : undefined;
}

function addVlanGateway(
  host: Rtnl,
  { index: masterIndex, name: bridge, mtu }: Link,
  { name, vlan }: { name: string; vlan: number },
): Link {
  const port = stableName("veth", bridge, String(vlan));
  // So that udev leaves the gateway's MAC, which containers remember.
  const mac = Mac.random();
  const peer = { netns: host.netns, name, mac: Mac.random() };
  try {
    host.link.addVeth({ name: port, mtu, mac, masterIndex, peer });
    readyHostEndForIpv6(host.netns, name);
  } catch (error) {
    // Another attachment was faster.
    if (!isErrno(error, "EEXIST")) throw error;
  }
  return host.link.get(name);
}
