/**
 * The bridge itself, which all attachments to it share: it is made by the first
 * one that needs it, and nobody deletes it.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";
import { isErrno } from "../../ffi/errno.ts";
import { NetlinkError } from "../../ffi/netlink/error.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Mac } from "../../net/mac.ts";
import { named } from "../parts/configure_link.ts";
import { readyHostEndForIpv6 } from "../parts/ipv6.ts";
import { type BridgeSettings, hasVlans } from "./settings.ts";

/** The part of the settings that is about the bridge. */
export type WantedBridge = Pick<
  BridgeSettings,
  "bridge" | "mtu" | "promiscuous" | "vlan" | "trunk"
>;

/**
 * Makes sure that the bridge is there, up, and as it must be for the attachment.
 * One that is there keeps its MTU, and whatever else is not asked for.
 *
 * @throws {CniError} 7 if the name is that of another kind of link
 * @throws {Error} If the kernel refuses; EOPNOTSUPP if it has no VLANs, with the
 *   option it lacks and the keys that need it
 */
export function ensureBridge(host: Rtnl, wanted: WantedBridge): Link {
  const link = host.link.find(wanted.bridge) ?? addBridge(host, wanted);
  if (link.kind !== "bridge") {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `"${link.name}" already exists but is not a bridge`,
    );
  }
  return named(`set up bridge "${link.name}"`, () => {
    completeBridge(host, link, wanted);
    return link.mac?.hex === NO_MAC ? giveMac(host, link) : link;
  });
}

/** A bridge's without ports, if nobody gave it one. */
const NO_MAC = "000000000000";

function addBridge(host: Rtnl, wanted: WantedBridge): Link {
  const { bridge: name, mtu } = wanted;
  // With a MAC of its own, for it would else have that of a port, and change
  // as ports come and go.
  const mac = Mac.random();
  const vlanFiltering = hasVlans(wanted) ? true : undefined;
  return named(`create bridge "${name}"`, () => {
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
  if (hasVlans(wanted) && !link.hasVlanFiltering) {
    forVlans(wanted, () => {
      host.link.setBridge(link.index, { vlanFiltering: true });
    });
  }
  if (wanted.promiscuous && !link.isPromiscuous) {
    host.link.set(link.index, { isPromiscuous: true });
  }
  if (!link.isUp) host.link.setUp(link.index);
}

/** Says what the kernel lacks if it refuses a bridge that tells VLANs apart. */
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

/** A kernel without any bridges gives the same number, and says so itself. */
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
 * Gives a bridge the MAC back that it had before it got another port, if it is
 * another one now. Neighbours remember it, and DHCP servers do.
 *
 * @param before The bridge as it was
 * @returns The bridge as it is
 */
export function keepMac(host: Rtnl, before: Link): Link {
  const { index, name, mac } = before;
  return named(`keep the MAC of bridge "${name}"`, () => {
    const link = host.link.get(index);
    if (mac === undefined || link.mac?.equals(mac)) return link;
    host.link.set(index, { mac });
    return { ...link, mac };
  });
}
