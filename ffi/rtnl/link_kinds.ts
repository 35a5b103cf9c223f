/**
 * Data of each kind of link (IFLA_INFO_DATA), by the kind's name.
 *
 * @module
 */

import { type Codec, u16, u32, u8 } from "../../net/bytes.ts";
import type { Mac } from "../../net/mac.ts";
import { attributeSet, bool } from "../netlink/attribute.ts";

/** The peer of a veth link to create: a whole link message. */
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

export interface VethData {
  readonly peer?: PeerLink | undefined;
}

export interface BridgeData {
  /** Whether VLAN filtering is on. */
  readonly vlanFiltering?: boolean | undefined;
  /** The VLAN of new ports; 0 for none. */
  readonly defaultVlan?: number | undefined;
}

export interface VrfData {
  /** The routing table of the VRF's ports. */
  readonly table?: number | undefined;
}

export interface MacvlanData {
  /** One of {@linkcode MacvlanMode}. */
  readonly mode?: number | undefined;
  /** How many broadcasts can wait for delivery to all macvlans of the lower link. */
  readonly broadcastQueueLength?: number | undefined;
}

/** Modes of a macvlan. Source: include/uapi/linux/if_link.h `enum macvlan_mode`. */
export const MacvlanMode = {
  Private: 1,
  Vepa: 2,
  Bridge: 4,
  Passthru: 8,
} as const;

export interface IpvlanData {
  /** One of {@linkcode IpvlanMode}. */
  readonly mode?: number | undefined;
}

/** Modes of an ipvlan. Source: include/uapi/linux/if_link.h `enum ipvlan_mode`. */
export const IpvlanMode = { L2: 0, L3: 1, L3s: 2 } as const;

/** Data of a VLAN link. */
export interface VlanData {
  /** The VLAN, 0 to 4094. */
  readonly id?: number | undefined;
}

/** Data of the supported kinds, by name. */
export interface DataByKind {
  readonly veth: VethData;
  readonly bridge: BridgeData;
  readonly vrf: VrfData;
  readonly macvlan: MacvlanData;
  readonly ipvlan: IpvlanData;
  readonly vlan: VlanData;
}

/**
 * A kind of link, with its data. Other kinds' data is not decoded.
 *
 * @internal Users get the kind's name and numbers
 */
export type KindData =
  | {
    readonly [K in keyof DataByKind]: {
      readonly kind: K;
      readonly data?: DataByKind[K] | undefined;
    };
  }[keyof DataByKind]
  | { readonly kind?: string | undefined; readonly data?: undefined };

/** Data of a bridge port. */
export interface PortData {
  /** The STP state, which also applies if STP is off. */
  readonly state?: number | undefined;
  /** Whether frames can leave through the port on which they arrived. */
  readonly hairpin?: boolean | undefined;
  /** Whether the bridge learns MAC addresses from the port's frames. */
  readonly learns?: boolean | undefined;
  /**
   * Whether it gets frames for MAC addresses that are not in the forwarding database.
   */
  readonly isFlooded?: boolean | undefined;
  /** Whether it is isolated from other isolated ports. */
  readonly isolated?: boolean | undefined;
}

/**
 * Returns the codec of each kind's data.
 *
 * @param peerLink Codec of a whole link message, as nested in a veth's data
 */
export function linkKinds(
  peerLink: Codec<PeerLink>,
): { readonly [K in keyof DataByKind]: Codec<DataByKind[K]> } {
  return {
    // Source: include/uapi/linux/veth.h.
    veth: attributeSet({ peer: [1, peerLink] }),
    // Source: include/uapi/linux/if_link.h `IFLA_BR_*`.
    bridge: attributeSet({ vlanFiltering: [7, bool], defaultVlan: [39, u16] }),
    // Source: include/uapi/linux/if_link.h `IFLA_VRF_TABLE`.
    vrf: attributeSet({ table: [1, u32] }),
    // Source: include/uapi/linux/if_link.h `IFLA_MACVLAN_*`.
    macvlan: attributeSet({ mode: [1, u32], broadcastQueueLength: [7, u32] }),
    // Source: include/uapi/linux/if_link.h `IFLA_IPVLAN_*`.
    ipvlan: attributeSet({ mode: [1, u16] }),
    // Source: include/uapi/linux/if_link.h `IFLA_VLAN_*`.
    vlan: attributeSet({ id: [1, u16] }),
  };
}

export const portKinds: Readonly<Record<string, Codec<PortData>>> = {
  // Source: include/uapi/linux/if_link.h `IFLA_BRPORT_*`.
  bridge: attributeSet({
    state: [1, u8],
    hairpin: [4, bool],
    learns: [8, bool],
    isFlooded: [9, bool],
    isolated: [33, bool],
  }),
};
