/**
 * Link messages of rtnetlink, as tables.
 *
 * Source: include/uapi/linux/if_link.h, Documentation/netlink/specs/rt-link.yaml.
 *
 * @module
 */

import {
  type Bytes,
  type Codec,
  i32,
  struct,
  u16,
  u32,
  u8,
} from "../../net/bytes.ts";
import {
  type AttributeSet,
  attributeSet,
  cstring,
  lazily,
  listOf,
  mac,
  markedNested,
  nested,
  type Row,
} from "../netlink/attribute.ts";
import { headerWithAttributes, message } from "../netlink/message.ts";
import {
  type KindData,
  linkKinds,
  type PortData,
  portKinds,
} from "./link_kinds.ts";

/** Fixed header of RTM_*LINK. Source: include/uapi/linux/rtnetlink.h `struct ifinfomsg`. */
export const linkHeader = struct({
  family: u8,
  type: u16,
  index: i32,
  flags: u32,
  change: u32,
});

/** Flags in {@linkcode linkHeader}. Source: include/uapi/linux/if.h `IFF_*`. */
export const LinkFlag = {
  Up: 1,
  NoArp: 0x80,
  Promiscuous: 0x100,
  AllMulticast: 0x200,
  Multicast: 0x1000,
  LowerUp: 0x1_0000,
} as const;

/**
 * The kind of a link, the kind of the bridge or VRF that it is a port of, and their
 * data.
 */
export type LinkInfo = KindData & {
  /** Kind of the bridge or VRF that the link is a port of. */
  readonly portKind?: string | undefined;
  readonly portData?: PortData | undefined;
};

/** Codecs of data by kind. */
type DataCodecs = Readonly<Record<string, Codec<unknown> | undefined>>;
const kindData: DataCodecs = linkKinds(lazily(() => peerLink));

/** IFLA_LINKINFO: the kinds determine the codecs of the data. */
const linkInfo: Codec<LinkInfo> = {
  encode: (info) => infoAttributes(info).encode(info),
  decode(bytes): LinkInfo {
    // The kind determines the codec of the data.
    const { kind, data, portKind, portData } = infoIn(bytes)
      .decode(bytes) as LinkInfo;
    const ofKind = { kind, data } as KindData;
    return portKind === undefined ? ofKind : { ...ofKind, portKind, portData };
  },
  locate: (bytes, offset) => infoIn(bytes).locate(bytes, offset),
};

type InfoAttributes = AttributeSet<{
  kind: Row<string>;
  data: Row<unknown>;
  portKind: Row<string>;
  portData: Row<unknown>;
}>;

/** Returns the attribute set for the kinds that the attributes name. */
function infoIn(bytes: Bytes): InfoAttributes {
  return infoAttributes(infoAttributes({}).decode(bytes));
}

/** Attribute sets by kind and port kind, built on first use. */
const infoSets = new Map<string, InfoAttributes>();

function infoAttributes(
  { kind = "", portKind = "" }: {
    readonly kind?: string | undefined;
    readonly portKind?: string | undefined;
  },
): InfoAttributes {
  const data = kindData[kind];
  const portData: Codec<unknown> | undefined = portKinds[portKind];
  // All kinds without a codec share a set.
  const key = `${data && kind}/${portData && portKind}`;
  let set = infoSets.get(key);
  if (set === undefined) {
    set = attributeSet({
      kind: [1, cstring],
      data: [2, data ?? unknownData],
      portKind: [4, cstring],
      portData: [5, portData ?? unknownData],
    });
    infoSets.set(key, set);
  }
  return set;
}

/** Ignores the data of unsupported kinds. */
const unknownData: Codec<unknown> = {
  encode: () => new Uint8Array(0),
  decode: () => undefined,
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
  targetNetnsId: [46, i32],
  newIndex: [49, i32],
  properties: [markedNested(52), listOf(53, cstring)],
  alternativeName: [53, cstring],
  permanentAddress: [54, mac],
  parentDevice: [56, cstring],
  parentBus: [57, cstring],
});

/**
 * A VLAN, or an end of a range. Source: include/uapi/linux/if_bridge.h `struct
 * bridge_vlan_info`.
 */
const vlanInfo = struct({ flags: u16, id: u16 });

/**
 * Attributes of RTM_*LINK for the family AF_BRIDGE. There, IFLA_AF_SPEC has the
 * VLANs of a port (`IFLA_BRIDGE_VLAN_INFO`).
 */
const bridgePortAttributes = attributeSet({
  extendedMask: [29, u32],
  vlans: [markedNested(26), listOf(2, vlanInfo)],
});

/** A link message without its number, as nested in a veth's data for its peer. */
const peerLink = headerWithAttributes(linkHeader, linkAttributes);

/** Names the link of a message in errors. */
function describe(
  { index = 0 }: { readonly index?: number },
  { alternativeName, name = alternativeName, group }: {
    readonly name?: string | undefined;
    readonly alternativeName?: string | undefined;
    readonly group?: number | undefined;
  },
): string | undefined {
  if (name !== undefined) return `"${name}"`;
  if (index !== 0) return `link ${index}`;
  return group === undefined ? undefined : `group ${group}`;
}

/** Creates, changes or reports a link. */
export const newLink = message(
  "RTM_NEWLINK",
  16,
  linkHeader,
  linkAttributes,
  describe,
);
/**
 * Makes changes that only RTM_NEWLINK for an existing link can make. Other link
 * messages lack IFLA_AF_SPEC, because the kernel reports hundreds of unused bytes in
 * it for each link.
 */
export const changeLink = message(
  "RTM_NEWLINK",
  16,
  linkHeader,
  attributeSet({
    alias: [20, cstring],
    families: [
      26,
      nested(attributeSet({
        inet6: [10, nested(attributeSet({ addressMode: [8, u8] }))],
      })),
    ],
  }),
  ({ index }) => index ? `link ${index}` : undefined,
);
/** Adds alternative names to a link. */
export const newLinkProperties = message(
  "RTM_NEWLINKPROP",
  108,
  linkHeader,
  linkAttributes,
  describe,
);
/** Removes alternative names from a link. */
export const delLinkProperties = message(
  "RTM_DELLINKPROP",
  109,
  linkHeader,
  linkAttributes,
  describe,
);
export const delLink = message(
  "RTM_DELLINK",
  17,
  linkHeader,
  linkAttributes,
  describe,
);
export const getLink = message(
  "RTM_GETLINK",
  18,
  linkHeader,
  linkAttributes,
  describe,
);

/** Adds VLANs to a bridge port. */
export const setBridgePort = message(
  "RTM_SETLINK",
  19,
  linkHeader,
  bridgePortAttributes,
  ({ index }) => index ? `link ${index}` : undefined,
);
/** Removes VLANs from a bridge port. */
export const delBridgePort = message(
  "RTM_DELLINK",
  17,
  linkHeader,
  bridgePortAttributes,
  ({ index }) => index ? `link ${index}` : undefined,
);
export const getBridgePort = message(
  "RTM_GETLINK",
  18,
  linkHeader,
  bridgePortAttributes,
  ({ index }) => index ? `link ${index}` : undefined,
);
/** Reports a bridge port. */
export const newBridgePort = message(
  "RTM_NEWLINK",
  16,
  linkHeader,
  bridgePortAttributes,
  ({ index }) => index ? `link ${index}` : undefined,
);
