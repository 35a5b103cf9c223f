/**
 * Data that belongs to one kind of link (IFLA_INFO_DATA), by the kind's name.
 *
 * @module
 */

import type { Mac } from "../../net/mac.ts";
import { attributeSet } from "../netlink/attribute.ts";
import type { Codec } from "../netlink/struct.ts";

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

/** Data of any kind that we know. */
export type KindData = VethData;

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
  };
}
