/**
 * Neighbour discovery before an IPv6 address is assigned: asks whether a different
 * host uses the address, as duplicate address detection does, and receives the
 * answers.
 *
 * Source: RFC 4862, section 5.4; RFC 4861, section 4.
 *
 * @module
 */

import { type Bytes, concat, u16be, u32be, viewOf } from "../../net/bytes.ts";
import { Ip } from "../../net/ip.ts";
import { Mac } from "../../net/mac.ts";
import * as libc from "../libc.ts";
import type { NetNs } from "../netns.ts";
import type { AddressOwner } from "./arp_socket.ts";
import {
  attachFilter,
  type Filter,
  LinkSocket,
  type SocketLink,
} from "./link_socket.ts";
import { checksumOf } from "./udp_frame.ts";

/** Source: include/uapi/linux/if_ether.h, in.h. */
const ETH_P_IPV6 = 0x86dd, PROTOCOL_ICMPV6 = 58;
/** Source: include/linux/socket.h, include/uapi/linux/if_packet.h. */
const SOL_PACKET = 263, PACKET_ADD_MEMBERSHIP = 1, PACKET_MR_MULTICAST = 0;
/** Types of messages. Source: include/net/ndisc.h. */
const SOLICITATION = 135, ADVERTISEMENT = 136;
/** The option that contains the MAC address in an advertisement. */
const TARGET_MAC = 2;
/** Version 6; messages that a router has forwarded are ignored. */
const VERSION = 0x60000000, HOPS = 255;
/** Offsets of a frame's fields. */
const Layout = {
  sender: 6,
  type: 12,
  protocol: 20,
  hops: 21,
  source: 22,
  icmp: 54,
  target: 62,
  options: 78,
};
/** Longest frame to read, in bytes; the options come first. */
const FRAME_BYTES = 256;

/** Accepts only neighbour discovery, not the link's other traffic. */
const DISCOVERY: Filter = [
  [0x30, 0, 0, Layout.protocol],
  [0x15, 0, 4, PROTOCOL_ICMPV6],
  [0x30, 0, 0, Layout.icmp],
  [0x15, 1, 0, SOLICITATION],
  [0x15, 0, 1, ADVERTISEMENT],
  [0x06, 0, 0, FRAME_BYTES],
  [0x06, 0, 0, 0],
];

const NONE = Ip.parse("::");
/** The destination of advertisements to a host that has no address yet. */
const ALL_NODES = Ip.parse("ff02::1");
const SOLICITED_NODE = Ip.parse("ff02::1:ff00:0");

/** A socket for neighbour discovery on a link. */
export class SolicitationSocket extends LinkSocket {
  readonly #link: SocketLink;

  /**
   * Opens a socket on a link. It stays in the link's namespace.
   *
   * @throws {SyscallError} ENODEV, ENETDOWN; EPERM without CAP_NET_RAW
   */
  constructor(netns: NetNs, link: SocketLink) {
    const prepare = (fd: number): void => attachFilter(fd, DISCOVERY);
    const { index: ifindex } = link;
    super(netns, { ifindex, etherType: ETH_P_IPV6, prepare }, FRAME_BYTES);
    this.#link = link;
  }

  /**
   * Joins a multicast group at the link layer, because only IPv6, which the link can
   * lack, would join it. A second call does nothing.
   *
   * Source: `struct packet_mreq`.
   */
  #join(group: Ip): void {
    const value = new Uint8Array(16);
    const view = viewOf(value);
    view.setInt32(0, this.#link.index, true);
    view.setUint16(4, PACKET_MR_MULTICAST, true);
    view.setUint16(6, 6, true);
    value.set(macOf(group).toBytes(), 8);
    const option = { level: SOL_PACKET, name: PACKET_ADD_MEMBERSHIP, value };
    libc.setSocketOptionBytes(this.fd, option);
  }

  /**
   * Solicits the owner of an address, and then also receives solicitations of other
   * hosts.
   *
   * @throws {SyscallError} ENETDOWN
   */
  ask(ip: Ip): void {
    const group = groupOf(ip);
    this.#join(ALL_NODES);
    this.#join(group);
    const body = concat([new Uint8Array(4), ip.toBytes()]);
    const head = (checksum: number): Bytes =>
      concat([new Uint8Array([SOLICITATION, 0]), u16be.encode(checksum)]);
    const length = 4 + body.length;
    const pseudo = concat([
      NONE.toBytes(),
      group.toBytes(),
      u32be.encode(length),
      u32be.encode(PROTOCOL_ICMPV6),
    ]);
    const checksum = checksumOf(concat([pseudo, head(0), body]));
    const frame = concat([
      macOf(group).toBytes(),
      this.#link.mac.toBytes(),
      u16be.encode(ETH_P_IPV6),
      u32be.encode(VERSION),
      u16be.encode(length),
      new Uint8Array([PROTOCOL_ICMPV6, HOPS]),
      NONE.toBytes(),
      group.toBytes(),
      head(checksum),
      body,
    ]);
    libc.send(this.fd, frame, 0);
  }

  /**
   * Receives claims that have arrived: from hosts that use an address, or probe for
   * it.
   */
  *receiveClaims(): Generator<AddressOwner> {
    for (const frame of this.frames()) {
      const owner = this.#decode(frame);
      if (owner !== undefined) yield owner;
    }
  }

  #decode(frame: Bytes): AddressOwner | undefined {
    const isDiscovery = frame.length >= Layout.options &&
      frame[Layout.protocol] === PROTOCOL_ICMPV6 &&
      frame[Layout.hops] === HOPS;
    if (!isDiscovery) return undefined;
    const ipAt = (at: number): Ip => Ip.fromBytes(frame.slice(at, at + 16));
    const ip = ipAt(Layout.target);
    const sender = Mac.fromBytes(frame.slice(Layout.sender, Layout.type));
    switch (frame[Layout.icmp]) {
      case ADVERTISEMENT:
        return { ip, mac: findTargetMac(frame) ?? sender };
      case SOLICITATION:
        // A solicitation without a source address is a duplicate address detection
        // probe. Other solicitations resolve the address.
        return ipAt(Layout.source).isUnspecified &&
            !sender.equals(this.#link.mac)
          ? { ip, mac: sender }
          : undefined;
      default:
        return undefined;
    }
  }
}

/**
 * Reads the MAC address in an advertisement. Option lengths are in units of 8 bytes.
 */
function findTargetMac(frame: Bytes): Mac | undefined {
  for (let at = Layout.options; at + 8 <= frame.length;) {
    const [type, units = 0] = frame.subarray(at);
    if (type === TARGET_MAC && units === 1) {
      return Mac.fromBytes(frame.slice(at + 2, at + 8));
    }
    if (units === 0) return undefined;
    at += 8 * units;
  }
  return undefined;
}

/** Returns the solicited-node group of an address. Source: RFC 4291, section 2.7.1. */
function groupOf({ value }: Ip): Ip {
  return SOLICITED_NODE.add(value & 0xffffffn);
}

/** Returns the MAC address of a group. Source: RFC 2464, section 7. */
function macOf(group: Ip): Mac {
  const bytes = new Uint8Array([0x33, 0x33, 0, 0, 0, 0]);
  bytes.set(group.toBytes().subarray(12), 2);
  return Mac.fromBytes(bytes);
}
