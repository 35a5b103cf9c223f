/**
 * VLANs of bridge ports: add, list, delete. The bridge needs VLAN filtering.
 *
 * @module
 */

import type { NetlinkSocket } from "../netlink/socket.ts";
import { AF_BRIDGE } from "./constants.ts";
import {
  delBridgePort,
  getBridgePort,
  linkHeader,
  newBridgePort,
  setBridgePort,
} from "./link_message.ts";

/** Source: include/uapi/linux/if_bridge.h `BRIDGE_VLAN_INFO_*`. */
const PVID = 0x2, UNTAGGED = 0x4, RANGE_BEGIN = 0x8, RANGE_END = 0x10;
/**
 * Has the kernel list ranges instead of each VLAN.
 *
 * Source: include/uapi/linux/rtnetlink.h.
 */
const RTEXT_FILTER_BRVLAN_COMPRESSED = 4;

/** A range of a port's VLANs. */
export interface PortVlans {
  /** The first VLAN, 1 to 4094. */
  readonly first: number;
  /** The last VLAN; equal to `first` for a single VLAN. */
  readonly last: number;
  /** Whether untagged ingress frames belong to this VLAN. Only for a single VLAN. */
  readonly isPvid?: boolean | undefined;
  /** Whether egress frames of these VLANs are untagged. */
  readonly isUntagged?: boolean | undefined;
}

/** VLANs of bridge ports in the namespace where the socket was opened. */
export class BridgeVlanRequests {
  readonly #socket: NetlinkSocket;

  /**
   * Uses an open socket.
   *
   * @param socket Borrowed, not closed
   */
  constructor(socket: NetlinkSocket) {
    this.#socket = socket;
  }

  /**
   * Adds VLANs to a port.
   *
   * @param index The port's index
   * @throws {NetlinkError} EOPNOTSUPP if the link is not a bridge port or the
   * kernel does not support bridge VLANs, EINVAL if a VLAN's number is invalid
   */
  add(index: number, vlans: PortVlans): void {
    this.#socket.request(setBridgePort, requestOf(index, vlans));
  }

  /**
   * Removes VLANs from a port. Ignores VLANs that the port does not have.
   *
   * @throws {NetlinkError} Like {@linkcode BridgeVlanRequests.add}
   */
  del(index: number, vlans: PortVlans): void {
    this.#socket.request(delBridgePort, requestOf(index, vlans));
  }

  /**
   * Lists the VLANs of a port, each for itself. The kernel reports all ports of all
   * bridges.
   */
  list(index: number): PortVlans[] {
    const parts = this.#socket.dump(
      getBridgePort,
      {
        header: { family: AF_BRIDGE },
        attributes: { extendedMask: RTEXT_FILTER_BRVLAN_COMPRESSED },
      },
      newBridgePort,
      (body) => linkHeader.decode(body).index === index,
    );
    return parts.flatMap(({ attributes }) => expand(attributes.vlans ?? []));
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

/** Lists each VLAN of ranges. A range is two entries, its ends. */
function expand(
  infos: readonly { readonly id?: number; readonly flags?: number }[],
): PortVlans[] {
  let begin: number | undefined;
  return infos.flatMap(({ id = 0, flags = 0 }) => {
    if (flags & RANGE_BEGIN) {
      begin = id;
      return [];
    }
    const from = flags & RANGE_END ? begin ?? id : id;
    return Array.from({ length: id - from + 1 }, (_, at) => ({
      first: from + at,
      last: from + at,
      isPvid: (flags & PVID) !== 0,
      isUntagged: (flags & UNTAGGED) !== 0,
    }));
  });
}
