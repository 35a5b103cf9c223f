/**
 * The bridge itself, shared by all attachments: the first one that needs it
 * creates it, and no attachment deletes it.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { ifPossible, readTextFile } from "../../base/files/io.ts";
import { isErrno } from "../../ffi/errno.ts";
import { NetlinkError } from "../../ffi/netlink/error.ts";
import { filtersVlans, type Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { NeighborRequests } from "../../ffi/rtnl/neighbor.ts";
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
 * attachment does not need. From then on, its MAC does not change as ports come and
 * go: neighbours and DHCP servers remember it.
 *
 * @param sysfs Path of the mounted sysfs
 * @throws {CniError} 7 if another kind of link has the name
 * @throws {Error} If the kernel refuses; EOPNOTSUPP if it lacks VLANs, with the
 *   missing kernel option and the keys that need it
 */
export function ensureBridge(
  host: Rtnl,
  wanted: WantedBridge,
  sysfs = "/sys",
): Link {
  const present = host.link.find(wanted.bridge);
  const link = present ?? addBridge(host, wanted);
  if (link.kind !== "bridge") {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `"${link.name}" already exists but is not a bridge`,
    );
  }
  return withAction(`set up bridge "${link.name}"`, () => {
    completeBridge(host, link, wanted);
    return present === undefined ? link : keepMac(host, link, sysfs);
  });
}

/** MAC of a bridge without ports, unless it was set. */
const NO_MAC = "000000000000";

function addBridge(host: Rtnl, wanted: WantedBridge): Link {
  const { bridge: name, mtu } = wanted;
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

/** Source: include/uapi/linux/netdevice.h `NET_ADDR_SET`. */
const SET_BY_USER = "3";

/**
 * Keeps the kernel from replacing a bridge's MAC by a port's. Before any port is
 * added, because another attachment would take a port's MAC for the bridge's.
 *
 * Source: net/bridge/br_stp_if.c `br_stp_recalculate_bridge_id`.
 */
function keepMac(host: Rtnl, link: Link, sysfs: string): Link {
  const { index, mac: present } = link;
  const mac = present === undefined || present.hex === NO_MAC
    ? Mac.random()
    : present;
  if (mac === present && isSetByUser(host, link, mac, sysfs)) return link;
  host.link.set(index, { mac });
  return { ...link, mac };
}

/**
 * Reports whether a bridge's MAC was set. To set it again would delete the host's
 * neighbours on the bridge, including static ones.
 */
function isSetByUser(
  host: Rtnl,
  { index, name, isOperational }: Link,
  mac: Mac,
  sysfs: string,
): boolean {
  const read = (file: string): string | undefined =>
    ifPossible(() => readTextFile(`${sysfs}/class/net/${name}/${file}`))
      ?.trim();
  if (read("address") === mac.toString()) {
    return read("addr_assign_type") === SET_BY_USER;
  }
  // The mounted sysfs is of a different namespace. A bridge with a carrier has a
  // port, and only a MAC that was set is none of its ports'.
  return isOperational &&
    new NeighborRequests(host.socket).findForwarding(index, mac)?.ifindex ===
      index;
}
