/**
 * A router that advertises itself by IPv6, over a link of its namespace.
 *
 * @module
 */

import { type Bytes, concat } from "../../net/bytes.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import { Mac } from "../../net/mac.ts";
import * as libc from "../../ffi/libc.ts";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";

const AF_PACKET = 17, SOCK_RAW = 3;
const ICMPV6 = 58, HOPS = 255, ALL_NODES = Ip.parse("ff02::1");
/** Lifetimes of the router and, by default, of the prefix, in seconds. */
const LIFETIME = 1800;

/**
 * Sends one advertisement of a default router and a prefix for addresses.
 *
 * Source: RFC 4861, 4.2 and 4.6.
 *
 * @param router The router's link-local address
 * @param lifetime Of the prefix; 0xffffffff is for ever
 * @param isOnLinkOnly Whether the prefix is not for addresses
 */
export function advertiseRouter(
  { path }: NetNs,
  ifName: string,
  {
    router = "fe80::aa",
    prefix = "2001:db8:ffff::/64",
    lifetime = LIFETIME,
    isOnLinkOnly = false,
  } = {},
): void {
  using rtnl = Rtnl.open(path);
  const { index, mac } = rtnl.link.get(ifName);
  const source = Ip.parse(router);
  const subnet = Cidr.parse(prefix);
  const seconds = words(lifetime);
  const message = (checksum: number): Bytes =>
    concat([
      Uint8Array.of(134, 0, checksum >> 8, checksum & 0xff),
      Uint8Array.of(64, 0, LIFETIME >> 8, LIFETIME & 0xff),
      new Uint8Array(8),
      // The prefix: on the link, and for addresses.
      Uint8Array.of(3, 4, subnet.prefixLength, isOnLinkOnly ? 0x80 : 0xc0),
      ...[seconds, seconds, words(0), subnet.network.toBytes()],
    ]);
  const { length } = message(0);
  const pseudo = concat([
    ...[source.toBytes(), ALL_NODES.toBytes(), words(length), words(ICMPV6)],
  ]);
  const frame = concat([
    Mac.parse("33:33:00:00:00:01").toBytes(),
    (mac ?? Mac.parse("c2:00:00:00:00:aa")).toBytes(),
    Uint8Array.of(0x86, 0xdd, 0x60, 0, 0, 0),
    Uint8Array.of(length >> 8, length & 0xff, ICMPV6, HOPS),
    ...[source.toBytes(), ALL_NODES.toBytes()],
    message(checksumOf(concat([pseudo, message(0)]))),
  ]);
  inNetns(rtnl.netns, () => {
    const fd = libc.socket(AF_PACKET, SOCK_RAW, 0);
    try {
      const address = new Uint8Array(20);
      const view = new DataView(address.buffer);
      view.setUint16(0, AF_PACKET, true);
      view.setInt32(4, index, true);
      libc.bind(fd, address);
      libc.send(fd, frame, 0);
    } finally {
      libc.close(fd);
    }
  });
}

function words(value: number): Bytes {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value);
  return bytes;
}

/** Source: RFC 1071. */
function checksumOf(bytes: Bytes): number {
  let sum = 0;
  for (const [position, byte] of bytes.entries()) {
    sum += position % 2 === 0 ? byte << 8 : byte;
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}
