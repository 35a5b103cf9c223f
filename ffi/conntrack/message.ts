/**
 * Messages of connection tracking, as tables.
 *
 * Source: include/uapi/linux/netfilter/nfnetlink_conntrack.h,
 * Documentation/netlink/specs/conntrack.yaml.
 *
 * @module
 */

import { struct, u16be, u32, u32be, u8 } from "../../net/bytes.ts";
import {
  attributeSet,
  ip,
  markedNested,
  nested,
} from "../netlink/attribute.ts";
import { message } from "../netlink/message.ts";

/** Fixed header of all netfilter messages. Source: `struct nfgenmsg`. */
const header = struct({ family: u8, version: u8, resourceId: u16be });

/** Source: `NFNL_SUBSYS_CTNETLINK`. */
const SUBSYSTEM = 1 << 8;

/** Source: `CTA_IP_*`. */
const addressAttributes = attributeSet({
  source4: [1, ip],
  destination4: [2, ip],
  source6: [3, ip],
  destination6: [4, ip],
});

/** Source: `CTA_PROTO_*`. */
const protocolAttributes = attributeSet({
  number: [1, u8],
  sourcePort: [2, u16be],
  destinationPort: [3, u16be],
  icmpId: [4, u16be],
  icmpType: [5, u8],
  icmpCode: [6, u8],
  icmp6Id: [7, u16be],
  icmp6Type: [8, u8],
  icmp6Code: [9, u8],
});

/** Source: `CTA_TUPLE_*`. */
const tupleAttributes = attributeSet({
  addresses: [markedNested(1), nested(addressAttributes)],
  protocol: [markedNested(2), nested(protocolAttributes)],
  zone: [3, u16be],
});

/** Source: `CTA_FILTER_*`. */
const filterAttributes = attributeSet({ originalFlags: [1, u32] });

/** Source: `CTA_*`. */
const connectionAttributes = attributeSet({
  original: [markedNested(1), nested(tupleAttributes)],
  reply: [markedNested(2), nested(tupleAttributes)],
  status: [3, u32be],
  id: [12, u32be],
  zone: [18, u16be],
  filter: [markedNested(25), nested(filterAttributes)],
  statusMask: [26, u32be],
});

/** Reports a connection. Source: `IPCTNL_MSG_CT_NEW`. */
export const newConnection = message(
  "IPCTNL_MSG_CT_NEW",
  SUBSYSTEM | 0,
  header,
  connectionAttributes,
);

export const getConnections = message(
  "IPCTNL_MSG_CT_GET",
  SUBSYSTEM | 1,
  header,
  connectionAttributes,
);

/** Deletes a connection, or all connections if it names none. */
export const delConnection = message(
  "IPCTNL_MSG_CT_DELETE",
  SUBSYSTEM | 2,
  header,
  connectionAttributes,
);
