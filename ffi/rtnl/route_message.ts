/**
 * Route messages of rtnetlink, as tables.
 *
 * Source: include/uapi/linux/rtnetlink.h, Documentation/netlink/specs/rt-route.yaml.
 *
 * @module
 */

import {
  type Bytes,
  type Codec,
  concat,
  decodePart,
  i32,
  struct,
  u16,
  u32,
  u8,
  viewOf,
} from "../../net/bytes.ts";
import type { Ip } from "../../net/ip.ts";
import { attributeSet, ip, nested } from "../netlink/attribute.ts";
import { headerWithAttributes, message } from "../netlink/message.ts";
import { splitRecords } from "../netlink/records.ts";
import { AF_INET, AF_INET6 } from "./constants.ts";

/** Fixed header of RTM_*ROUTE. Source: `struct rtmsg`. */
const routeHeader = struct({
  family: u8,
  destinationLength: u8,
  sourceLength: u8,
  tos: u8,
  table: u8,
  protocol: u8,
  scope: u8,
  type: u8,
  flags: u32,
});

/** Source: `RTAX_*`. */
const routeMetrics = attributeSet({
  mtu: [2, u32],
  advmss: [8, u32],
});

/** Fixed header of a next hop. Source: `struct rtnexthop`. */
const nextHopHeader = struct({
  length: u16,
  flags: u8,
  hops: u8,
  ifindex: i32,
});

/** A next hop has the attributes of a route. Only these are used. */
const nextHopAttributes = attributeSet({ gateway: [5, ip] });

const nextHop = headerWithAttributes(nextHopHeader, nextHopAttributes);

type NextHop = ReturnType<typeof nextHop.decode>;

/** RTA_MULTIPATH: the next hops, if a route has several. */
const nextHops: Codec<NextHop[]> = {
  encode: (hops) => concat(hops.map(encodeNextHop)),
  decode(bytes): NextHop[] {
    const view = viewOf(bytes), run = [0, bytes.length] as const;
    return splitRecords(nextHopHeader, view, run, "a next hop")
      .map(({ header, payloadStart, end }) => ({
        header,
        attributes: decodePart(nextHopAttributes, view, payloadStart, end),
      }));
  },
};

function encodeNextHop({ header, attributes }: NextHop): Bytes {
  const { length } = nextHop.encode({ header, attributes });
  return nextHop.encode({ header: { ...header, length }, attributes });
}

/** Attributes of RTM_*ROUTE. */
const routeAttributes = attributeSet({
  destination: [1, ip],
  source: [2, ip],
  iif: [3, u32],
  oif: [4, u32],
  gateway: [5, ip],
  priority: [6, u32],
  preferredSource: [7, ip],
  metrics: [8, nested(routeMetrics)],
  multipath: [9, nextHops],
  table: [15, u32],
  nextHopId: [30, u32],
});

/** Names the route of a message in errors. */
function describe(
  { destinationLength }: { readonly destinationLength?: number },
  { destination, gateway, oif, table }: {
    readonly destination?: Ip | undefined;
    readonly gateway?: Ip | undefined;
    readonly oif?: number | undefined;
    readonly table?: number | undefined;
  },
): string {
  return [
    destinationLength ? `${destination}/${destinationLength}` : "default",
    gateway && `via ${gateway}`,
    oif && `dev ${oif}`,
    table && `table ${table}`,
  ].filter(Boolean).join(" ");
}

/** Adds or reports a route. */
export const newRoute = {
  ...message(
    "RTM_NEWROUTE",
    24,
    routeHeader,
    routeAttributes,
    describe,
  ),
  families: [AF_INET, AF_INET6],
};

export const delRoute = message(
  "RTM_DELROUTE",
  25,
  routeHeader,
  routeAttributes,
  describe,
);

export const getRoute = message(
  "RTM_GETROUTE",
  26,
  routeHeader,
  routeAttributes,
  // Without a destination, all routes are requested.
  (_, { destination }) => destination && `"${destination}"`,
);
