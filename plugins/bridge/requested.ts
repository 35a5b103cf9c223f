/**
 * Which addresses a call may ask for: with the address of another container or
 * of the host, the container would get the frames of its owner; and a gateway
 * that no administrator configured must not take the host's networks.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import type { Call } from "../../cni/plugin.ts";
import type { Result } from "../../cni/result/result.ts";
import { BridgeVlanRequests } from "../../ffi/rtnl/bridge_vlan.ts";
import { filtersVlans, type Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Cidr } from "../../net/cidr.ts";
import { attachmentOf } from "../parts/owner/attachment.ts";
import {
  addressInUseError,
  checkNotOfHost,
  describeUser,
  peerHasAddress,
  requestedIpsOf,
} from "../parts/address/free_ip.ts";
import { findOwnHostEnd } from "../parts/link/veth.ts";
import { gatewayAddressesOf } from "./inspect.ts";
import { untaggedVlanOf } from "./port_vlans.ts";
import type { BridgeConfig } from "./schema.ts";
import { type BridgeSettings, vlanGatewayNameOf } from "./settings.ts";

interface Asking {
  readonly call: Call<BridgeConfig>;
  readonly settings: BridgeSettings;
  readonly host: Rtnl;
}

/**
 * Refuses requested addresses that another container of the bridge or the host
 * has, and gateways whose subnets are the host's elsewhere.
 *
 * @throws {CniError} 7 if it is the host's, 11 if it is a container's
 */
export function checkRequested(asking: Asking, lease: Result): void {
  const { call, settings, host } = asking;
  const requested = requestedIpsOf(lease, call);
  if (requested.length === 0) return;
  const bridge = host.link.find(settings.bridge);
  const own = findOwnHostEnd(host, attachmentOf(call));
  const ports = bridge === undefined
    ? []
    : host.link.list({ masterIndex: bridge.index })
      .filter(({ index }) => index !== own?.index);
  const links = hostLinksOf(host, bridge, settings);
  for (const ip of requested) {
    checkNotOfHost(host, ip, links);
    const port = ports.find((port) =>
      peerHasAddress(host, port, ip) &&
      isInVlan(host, { port, bridge, settings })
    );
    if (port !== undefined) throw addressInUseError(ip, describeUser(port));
  }
  if (!settings.isGateway) return;
  const ips = lease.ips.filter(({ address }) =>
    requested.some((ip) => ip.equals(address.ip))
  );
  for (const gateway of gatewayAddressesOf(ips)) {
    checkTakesNoNetwork(host, settings, gateway);
  }
}

/**
 * Lists the links over which the host itself is on the network of the
 * container: the bridge, which is in a VLAN like its ports, and the link that the
 * host has in the VLAN.
 */
function hostLinksOf(
  host: Rtnl,
  bridge: Link | undefined,
  settings: BridgeSettings,
): Link[] {
  const { vlan } = settings;
  const own = vlan === undefined
    ? undefined
    : host.link.find(vlanGatewayNameOf(settings, vlan));
  const isShared = bridge !== undefined &&
    isInVlan(host, { port: bridge, bridge, settings });
  return [isShared ? bridge : undefined, own]
    .filter((link) => link !== undefined);
}

/** Reports whether a port, or the bridge itself, is in the VLAN of the call. */
function isInVlan(
  host: Rtnl,
  { port, bridge, settings }: {
    readonly port: Link;
    readonly bridge: Link | undefined;
    readonly settings: BridgeSettings;
  },
): boolean {
  if (bridge === undefined || !filtersVlans(bridge)) return true;
  const vlan = untaggedVlanOf(settings, bridge);
  return new BridgeVlanRequests(host.socket).list(port.index)
    .some(({ first, isPvid }) => isPvid && first === vlan);
}

/** Refuses a subnet that has networks of the host, or is a part of one. */
function checkTakesNoNetwork(
  host: Rtnl,
  settings: BridgeSettings,
  gateway: Cidr,
): void {
  const { bridge, vlan } = settings;
  const name = vlan === undefined ? bridge : vlanGatewayNameOf(settings, vlan);
  const own = host.link.find(name)?.index;
  const route = host.route.list().find((
    { destination, ifindex, gateway: via },
  ) =>
    ifindex !== undefined && ifindex !== own && destination.prefixLength > 0 &&
    !destination.ip.isLinkLocal &&
    (gateway.containsCidr(destination) ||
      via === undefined && destination.containsCidr(gateway))
  );
  if (route === undefined) return;
  const user = host.link.find(route.ifindex ?? 0)?.name ?? "";
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot assign ${gateway} to "${name}": the host reaches ${route.destination} over "${user}"`,
  );
}
