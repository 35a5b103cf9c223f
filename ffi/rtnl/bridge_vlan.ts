/**
 * VLANs of a bridge's ports: add, list, delete. The bridge needs VLAN filtering.
 *
 * @module
 */

import type { NetlinkSocket } from "../netlink/socket.ts";
import { AF_BRIDGE } from "./constants.ts";
import {
  delBridgePort,
  getBridgePort,
  newBridgePort,
  setBridgePort,
} from "./link_message.ts";

/** Source: include/uapi/linux/if_bridge.h `BRIDGE_VLAN_INFO_*`. */
const PVID = 0x2, UNTAGGED = 0x4, RANGE_BEGIN = 0x8, RANGE_END = 0x10;
/** Source: include/uapi/linux/rtnetlink.h. */
const RTEXT_FILTER_BRVLAN = 2;

/** VLANs of a port, all of one range. */
export interface PortVlans {
  /** 1 to 4094. */
  readonly first: number;
  /** The same as `first` for a single one. */
  readonly last: number;
  /** Frames that come in without a tag belong to it; only of a single one. */
  readonly isPvid?: boolean | undefined;
  /** Frames go out without a tag. */
  readonly isUntagged?: boolean | undefined;
}

/** VLANs of the bridges' ports in the namespace where the socket was opened. */
export class BridgeVlanRequests {
  readonly #socket: NetlinkSocket;

  /**
   * Speaks through an open socket.
   *
   * @param socket Borrowed, not closed
   */
  constructor(socket: NetlinkSocket) {
    this.#socket = socket;
  }

  /**
   * Gives a port VLANs.
   *
   * @param index The port's
   * @throws {NetlinkError} EOPNOTSUPP if the link is no port or the kernel has
   * no bridges with VLANs, EINVAL if a number is none of a VLAN
   */
  add(index: number, vlans: PortVlans): void {
    this.#socket.request(setBridgePort, requestOf(index, vlans));
  }

  /**
   * Takes VLANs from a port. VLANs that it does not have are no error.
   *
   * @throws {NetlinkError} As {@linkcode BridgeVlanRequests.add}
   */
  del(index: number, vlans: PortVlans): void {
    this.#socket.request(delBridgePort, requestOf(index, vlans));
  }

  /** Lists the VLANs of a port. */
  list(index: number): PortVlans[] {
    const parts = this.#socket.dump(getBridgePort, {
      header: { family: AF_BRIDGE },
      attributes: { extendedMask: RTEXT_FILTER_BRVLAN },
    }, newBridgePort).filter(({ header }) => header.index === index);
    return parts.flatMap(({ attributes }) => attributes.vlans ?? [])
      .map(({ id = 0, flags = 0 }) => ({
        first: id,
        last: id,
        isPvid: (flags & PVID) !== 0,
        isUntagged: (flags & UNTAGGED) !== 0,
      }));
  }
}

function requestOf(
  index: number,
  { first, last, isPvid = false, isUntagged = false }: PortVlans,
): Parameters<typeof setBridgePort.encode>[0] {
  const flags = (isPvid ? PVID : 0) | (isUntagged ? UNTAGGED : 0);
  const vlans = first === last ? [{ id: first, flags }] : [
    { id: first, flags: flags | RANGE_BEGIN },
    { id: last, flags: flags | RANGE_END },
  ];
  const header = { family: AF_BRIDGE, index };
  return { header, attributes: { vlans } };
}
