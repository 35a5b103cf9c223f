/**
 * Data that belongs to one kind of link (IFLA_INFO_DATA), by the kind's name.
 *
 * @module
 */

import type { Mac } from "../../net/mac.ts";
import { attributeSet } from "../netlink/attribute.ts";
import { type Codec, u16, u8 } from "../netlink/struct.ts";

/** The other end of a veth as it is asked for: a link message of its own. */
export interface PeerLink {
  readonly header: { readonly index?: number };
  readonly attributes?: {
    readonly name?: string | undefined;
    readonly mtu?: number | undefined;
    readonly address?: Mac | undefined;
    readonly netnsFd?: number | undefined;
    readonly transmitQueues?: number | undefined;
    readonly receiveQueues?: number | undefined;
  };
}

/** Data of a veth. */
export interface VethData {
  readonly peer?: PeerLink | undefined;
}

/** Data of a bridge. */
export interface BridgeData {
  /** Whether ports have VLANs: 1 or 0. */
  readonly vlanFiltering?: number | undefined;
  /** The VLAN that a new port is in, 0 for none. */
  readonly defaultVlan?: number | undefined;
}

/** Data of any kind that we know. */
export type KindData = VethData & BridgeData;

/** Data of a link as a port of another one, a bridge's. */
export interface PortData {
  /** Whether frames may go out by the port they came in by: 1 or 0. */
  readonly hairpin?: number | undefined;
  /** Whether it is cut off from other ports that are: 1 or 0. */
  readonly isolated?: number | undefined;
}

/**
 * Returns the codec of each kind's data.
 *
 * @param peerLink Codec of a whole link message, which a veth holds inside its own
 */
export function linkKinds(
  peerLink: Codec<PeerLink>,
): Readonly<Record<string, Codec<KindData>>> {
  return {
    // Source: include/uapi/linux/veth.h.
    veth: attributeSet({ peer: [1, peerLink] }),
    // Source: include/uapi/linux/if_link.h `IFLA_BR_*`.
    bridge: attributeSet({ vlanFiltering: [7, u8], defaultVlan: [39, u16] }),
  };
}

/** The codec of each kind's data of a port. */
export const portKinds: Readonly<Record<string, Codec<PortData>>> = {
  // Source: include/uapi/linux/if_link.h `IFLA_BRPORT_*`.
  bridge: attributeSet({ hairpin: [4, u8], isolated: [33, u8] }),
};
