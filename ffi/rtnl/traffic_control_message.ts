/**
 * Traffic control messages of rtnetlink, as tables.
 *
 * Source: include/uapi/linux/rtnetlink.h, Documentation/netlink/specs/tc.yaml.
 *
 * @module
 */

import { i32, struct, u16, u16be, u32, u8 } from "../../net/bytes.ts";
import { message } from "../netlink/message.ts";
import {
  kindAttributes,
  type KindOptions,
  trafficControlKinds,
} from "./traffic_control_kinds.ts";

/** Fixed header of RTM_*QDISC and RTM_*TCLASS. Source: `struct tcmsg`. */
export const trafficHeader = struct({
  family: u8,
  padding1: u8,
  padding2: u16,
  ifindex: i32,
  handle: u32,
  parent: u32,
  info: u32,
});

/**
 * Fixed header of RTM_*TFILTER. `info` consists of the protocol, in network byte
 * order, and the priority.
 */
const filterHeader = struct({
  family: u8,
  padding1: u8,
  padding2: u16,
  ifindex: i32,
  handle: u32,
  parent: u32,
  protocol: u16be,
  priority: u16,
});

/** Attributes of all traffic control messages. Source: `TCA_*`. */
const trafficAttributes = kindAttributes<KindOptions>(trafficControlKinds);

/** Names the link of a message in errors. */
function describe({ ifindex }: { readonly ifindex?: number }): string {
  return `of link ${ifindex}`;
}

/** Adds, replaces or reports a qdisc. */
export const newQdisc = message(
  "RTM_NEWQDISC",
  36,
  trafficHeader,
  trafficAttributes,
  describe,
);
export const delQdisc = message(
  "RTM_DELQDISC",
  37,
  trafficHeader,
  trafficAttributes,
  describe,
);
export const getQdisc = message(
  "RTM_GETQDISC",
  38,
  trafficHeader,
  trafficAttributes,
  describe,
);

/** Adds or reports a class of a qdisc. */
export const newClass = message(
  "RTM_NEWTCLASS",
  40,
  trafficHeader,
  trafficAttributes,
  describe,
);
export const delClass = message(
  "RTM_DELTCLASS",
  41,
  trafficHeader,
  trafficAttributes,
  describe,
);
/** Requests classes. */
export const getClass = message(
  "RTM_GETTCLASS",
  42,
  trafficHeader,
  trafficAttributes,
  describe,
);

/** Adds or reports a filter of a qdisc. */
export const newFilter = message(
  "RTM_NEWTFILTER",
  44,
  filterHeader,
  trafficAttributes,
  describe,
);
export const delFilter = message(
  "RTM_DELTFILTER",
  45,
  filterHeader,
  trafficAttributes,
  describe,
);
export const getFilter = message(
  "RTM_GETTFILTER",
  46,
  filterHeader,
  trafficAttributes,
  describe,
);
