/**
 * Link messages of rtnetlink, as tables.
 *
 * Source: include/uapi/linux/if_link.h, Documentation/netlink/specs/rt-link.yaml.
 *
 * @module
 */

import {
  type AttributeSet,
  attributeSet,
  cstring,
  lazily,
  mac,
  type Row,
} from "../netlink/attribute.ts";
import { headed, message } from "../netlink/message.ts";
import { type Codec, i32, struct, u16, u32, u8 } from "../netlink/struct.ts";
import { type KindData, linkKinds } from "./link_kinds.ts";

/** Fixed header of RTM_*LINK. Source: include/uapi/linux/rtnetlink.h `struct ifinfomsg`. */
const linkHeader = struct({
  family: u8,
  type: u16,
  index: i32,
  flags: u32,
  change: u32,
});

/** What kind of link it is, with the data of that kind. */
export interface LinkInfo {
  readonly kind: string;
  readonly data?: KindData | undefined;
}

const kindData = linkKinds(lazily(() => peerLink));

/** IFLA_LINKINFO: the codec of the data follows from the kind beside it. */
const linkInfo: Codec<LinkInfo> = {
  encode: (info) => infoAttributes(info.kind).encode(info),
  decode(bytes): LinkInfo {
    const { kind = "" } = infoAttributes("").decode(bytes);
    const { data } = infoAttributes(kind).decode(bytes);
    return { kind, data };
  },
  locate(bytes, offset): string | undefined {
    const { kind = "" } = infoAttributes("").decode(bytes);
    return infoAttributes(kind).locate(bytes, offset);
  },
};

function infoAttributes(
  kind: string,
): AttributeSet<{ kind: Row<string>; data: Row<KindData> }> {
  const data = kindData[kind] ?? unknownData;
  return attributeSet({ kind: [1, cstring], data: [2, data] });
}

/** Data of a kind that we do not know is passed over. */
const unknownData: Codec<KindData> = {
  encode: () => new Uint8Array(0),
  decode: () => ({}),
};

/** Attributes of RTM_*LINK. */
const linkAttributes = attributeSet({
  address: [1, mac],
  name: [3, cstring],
  mtu: [4, u32],
  link: [5, u32],
  master: [10, u32],
  transmitQueueLength: [13, u32],
  operationalState: [16, u8],
  linkInfo: [18, linkInfo],
  alias: [20, cstring],
  group: [27, u32],
  netnsFd: [28, u32],
  extendedMask: [29, u32],
  transmitQueues: [31, u32],
  receiveQueues: [32, u32],
  linkNetnsId: [37, i32],
});

/** A link message without its number, as a veth holds one of its peer. */
const peerLink = headed(linkHeader, linkAttributes);

/** Creates or changes a link, and tells of one. */
export const newLink = message("RTM_NEWLINK", 16, linkHeader, linkAttributes);
/** Deletes a link. */
export const delLink = message("RTM_DELLINK", 17, linkHeader, linkAttributes);
/** Asks for links. */
export const getLink = message("RTM_GETLINK", 18, linkHeader, linkAttributes);
