/**
 * Address messages of rtnetlink, as tables.
 *
 * Source: include/uapi/linux/if_addr.h, Documentation/netlink/specs/rt-addr.yaml.
 *
 * @module
 */

import { i32, struct, u32, u8 } from "../../net/bytes.ts";
import type { Ip } from "../../net/ip.ts";
import { attributeSet, cstring, ip } from "../netlink/attribute.ts";
import { message } from "../netlink/message.ts";
import { AF_INET, AF_INET6 } from "./constants.ts";

/** Fixed header of RTM_*ADDR. Source: `struct ifaddrmsg`. */
const addressHeader = struct({
  family: u8,
  prefixLength: u8,
  flags: u8,
  scope: u8,
  ifindex: u32,
});

/** Seconds, and times of the kernel. Source: `struct ifa_cacheinfo`. */
const lifetimes = struct({
  preferred: u32,
  valid: u32,
  created: u32,
  changed: u32,
});

/** Attributes of RTM_*ADDR. */
const addressAttributes = attributeSet({
  address: [1, ip],
  local: [2, ip],
  label: [3, cstring],
  broadcast: [4, ip],
  lifetimes: [6, lifetimes],
  flags: [8, u32],
  targetNetnsId: [10, i32],
});

/** Names the address of a message in errors. */
function describe(
  { prefixLength, ifindex }: {
    readonly prefixLength?: number;
    readonly ifindex?: number;
  },
  { address }: { readonly address?: Ip | undefined },
): string | undefined {
  const link = ifindex ? `link ${ifindex}` : undefined;
  return address === undefined ? link : `${address}/${prefixLength} of ${link}`;
}

/** Adds or reports an address. */
export const newAddress = {
  ...message(
    "RTM_NEWADDR",
    20,
    addressHeader,
    addressAttributes,
    describe,
  ),
  families: [AF_INET, AF_INET6],
};

/** Removes an address. */
export const delAddress = message(
  "RTM_DELADDR",
  21,
  addressHeader,
  addressAttributes,
  describe,
);

/** Requests addresses. */
export const getAddress = message(
  "RTM_GETADDR",
  22,
  addressHeader,
  addressAttributes,
  describe,
);
