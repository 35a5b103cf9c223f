/**
 * The bridge itself, shared by all attachments: the first one that needs it
 * creates it, and no attachment deletes it.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { isErrno } from "../../ffi/errno.ts";
import { NetlinkError } from "../../ffi/netlink/error.ts";
import { filtersVlans, type Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Mac } from "../../net/mac.ts";
import { withAction } from "../parts/link/configure_link.ts";
import { readyHostEndForIpv6 } from "../parts/address/ipv6.ts";
import { type BridgeSettings, hasVlans } from "./settings.ts";

/** The bridge's part of the settings. */
export type WantedBridge = Pick<
  BridgeSettings,
  "bridge" | "mtu" | "promiscuous" | "vlan" | "trunk"
>;

/**
 * Ensures that the bridge exists, is up, and has the options that the
 * attachment needs. An existing bridge keeps its MTU and all options that the
 * attachment does not need.
 *
 * @throws {CniError} 7 if another kind of link has the name
 * @throws {Error} If the kernel refuses; EOPNOTSUPP if it lacks VLANs, with the
 *   missing kernel option and the keys that need it
 */
export function ensureBridge(host: Rtnl, wanted: WantedBridge): Link {
  const link = host.link.find(wanted.bridge) ?? addBridge(host, wanted);
  if (link.kind !== "bridge") {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `"${link.name}" already exists but is not a bridge`,
    );
  }
  return withAction(`set up bridge "${link.name}"`, () => {
    completeBridge(host, link, wanted);
    return link.mac?.hex === NO_MAC ? giveMac(host, link) : link;
  });
}

/** MAC of a bridge without ports, unless it was set. */
const NO_MAC = "000000000000";

function addBridge(host: Rtnl, wanted: WantedBridge): Link {
  const { bridge: name, mtu } = wanted;
  // With its own MAC: by default it has a port's, which changes as ports come
  // and go.
  const mac = Mac.random();
  const vlanFiltering = hasVlans(wanted) ? true : undefined;
  return withAction(`create bridge "${name}"`, () => {
    try {
      const link = forVlans(
        wanted,
        () => host.link.addBridge({ name, mtu, mac, vlanFiltering }),
      );
      readyHostEndForIpv6(host.netns, name);
      return link;
    } catch (error) {
      // Another attachment was faster.
      if (isErrno(error, "EEXIST")) return host.link.get(name);
      throw error;
    }
  });
}

function completeBridge(host: Rtnl, link: Link, wanted: WantedBridge): void {
  if (hasVlans(wanted) && !filtersVlans(link)) {
    forVlans(wanted, () => {
      host.link.set(link.index, { bridge: { vlanFiltering: true } });
    });
  }
  if (wanted.promiscuous && !link.isPromiscuous) {
    host.link.set(link.index, { isPromiscuous: true });
  }
  if (!link.isUp) host.link.set(link.index, { isUp: true });
}

/**
 * Adds the missing kernel option to the error if the kernel refuses a bridge
 * with VLANs.
 */
function forVlans<T>(wanted: WantedBridge, request: () => T): T {
  try {
    return request();
  } catch (error) {
    if (!hasVlans(wanted) || !isVlanRefusal(error)) throw error;
    const { vlan, trunk } = wanted;
    const keys = [
      ...(vlan === undefined ? [] : ['"vlan"']),
      ...(trunk.length === 0 ? [] : ['"vlanTrunk"']),
    ].join(" and ");
    throw new Error(
      "the kernel has no VLAN filtering for bridges " +
        `(CONFIG_BRIDGE_VLAN_FILTERING), which is needed for ${keys}`,
      { cause: error },
    );
  }
}

/**
 * A kernel without any bridges returns the same errno, with its own message.
 */
function isVlanRefusal(error: unknown): boolean {
  return error instanceof NetlinkError && error.errno === "EOPNOTSUPP" &&
    error.extAck === "";
}

function giveMac(host: Rtnl, link: Link): Link {
  const mac = Mac.random();
  host.link.set(link.index, { mac });
  return { ...link, mac };
}

/**
 * Restores a bridge's MAC if a new port has changed it. Neighbours and DHCP
 * servers remember the MAC.
 *
 * @param before The bridge before the change
 * @returns The bridge now
 */
export function keepMac(host: Rtnl, before: Link): Link {
  const { index, name, mac } = before;
  return withAction(`keep the MAC of bridge "${name}"`, () => {
    const link = host.link.get(index);
    if (mac === undefined || link.mac?.equals(mac)) return link;
    host.link.set(index, { mac });
    return { ...link, mac };
  });
}
