/**
 * Decodes the kernel's link messages.
 *
 * @module
 */

import type { DataByKind } from "./link_kinds.ts";
import { LinkFlag, type LinkInfo, type newLink } from "./link_message.ts";
import type {
  BridgePortState,
  Link,
  LinkData,
  LinkDataByKind,
} from "./link_types.ts";

/** The states in the order of their numbers. */
const PORT_STATES: readonly BridgePortState[] = [
  "disabled",
  "listening",
  "learning",
  "forwarding",
  "blocking",
];
/** Source: RFC 2863, include/uapi/linux/if.h `IF_OPER_*`. */
const OPERATIONAL_UNKNOWN = 0, OPERATIONAL_UP = 6;

type LinkAnswer = ReturnType<typeof newLink.decode>;

/** Decodes a link message. */
export function decodeLink({ header, attributes }: LinkAnswer): Link {
  const { linkInfo, operationalState } = attributes;
  return {
    index: header.index,
    name: attributes.name ?? "",
    kind: linkInfo?.kind ?? "",
    mac: attributes.address,
    mtu: attributes.mtu ?? 0,
    isUp: (header.flags & LinkFlag.Up) !== 0,
    linkIndex: attributes.link,
    linkNsid: attributes.linkNetnsId,
    masterIndex: attributes.master,
    alias: attributes.alias,
    alternativeNames: attributes.properties ?? [],
    permanentMac: attributes.permanentAddress,
    parent: attributes.parentDevice === undefined
      ? undefined
      : { bus: attributes.parentBus ?? "", name: attributes.parentDevice },
    isOperational: operationalState === OPERATIONAL_UP ||
      // Loopback has no state, and other links have none until they are queried.
      operationalState === OPERATIONAL_UNKNOWN &&
        (header.flags & LinkFlag.LowerUp) !== 0,
    isPromiscuous: (header.flags & LinkFlag.Promiscuous) !== 0,
    isAllMulticast: (header.flags & LinkFlag.AllMulticast) !== 0,
    transmitQueueLength: attributes.transmitQueueLength ?? 0,
    data: linkInfo === undefined ? undefined : decodeData(linkInfo),
    port: linkInfo?.portKind === "bridge"
      ? {
        hairpin: linkInfo.portData?.hairpin ?? false,
        isolated: linkInfo.portData?.isolated ?? false,
        learns: linkInfo.portData?.learns ?? true,
        isFlooded: linkInfo.portData?.isFlooded ?? true,
        state: PORT_STATES[linkInfo.portData?.state ?? 0] ?? "disabled",
      }
      : undefined,
    hasArp: (header.flags & LinkFlag.NoArp) === 0,
    hasMulticast: (header.flags & LinkFlag.Multicast) !== 0,
    group: attributes.group ?? 0,
  };
}

/** Properties of links of each kind, from the data of their messages. */
const DECODERS: {
  readonly [K in keyof LinkDataByKind]: (
    data: DataByKind[K],
  ) => LinkDataByKind[K];
} = {
  bridge: ({ vlanFiltering = false, defaultVlan = 0 }) => ({
    vlanFiltering,
    defaultVlan,
  }),
  vrf: ({ table = 0 }) => ({ table }),
  macvlan: ({ mode = 0 }) => ({ mode }),
  ipvlan: ({ mode = 0 }) => ({ mode }),
  vlan: ({ id = 0 }) => ({ id }),
};

function decodeData({ kind = "", data = {} }: LinkInfo): LinkData | undefined {
  if (!Object.hasOwn(DECODERS, kind)) return undefined;
  const decode = DECODERS[kind as keyof LinkDataByKind] as (
    data: object,
  ) => object;
  return { kind, ...decode(data) } as LinkData;
}
