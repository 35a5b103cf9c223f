/**
 * UDP datagrams in Ethernet frames.
 *
 * @module
 */

import {
  type Bytes,
  concat,
  struct,
  u16be,
  u32be,
  u8,
  viewOf,
} from "../../net/bytes.ts";
import { Ip } from "../../net/ip.ts";
import { Mac } from "../../net/mac.ts";

/** Source: include/uapi/linux/if_ether.h, in.h. */
export const ETHERTYPE_IPV4 = 0x0800;
const ETHERNET_BYTES = 14, PROTOCOL_UDP = 17;

/** An end of a datagram's path. */
export interface Endpoint {
  readonly mac: Mac;
  /** The IPv4 address. */
  readonly ip: Ip;
  readonly port: number;
}

/** A UDP datagram over IPv4. */
export interface Datagram {
  readonly source: Endpoint;
  readonly destination: Endpoint;
  readonly payload: Bytes;
}

/** Source: include/uapi/linux/ip.h `struct iphdr`. */
const ipHeader = struct({
  version: u8,
  service: u8,
  length: u16be,
  id: u16be,
  fragment: u16be,
  hops: u8,
  protocol: u8,
  checksum: u16be,
  source: u32be,
  destination: u32be,
});

/** Source: include/uapi/linux/udp.h `struct udphdr`. */
const udpHeader = struct({
  source: u16be,
  destination: u16be,
  length: u16be,
  checksum: u16be,
});

/** Version 4, and a header of 5 words. */
const VERSION = 0x45, DONT_FRAGMENT = 0x4000, HOPS = 64;

/** Encodes a datagram as a whole frame. */
export function encodeDatagram(
  { source, destination, payload }: Datagram,
): Bytes {
  const length = udpHeader.size + payload.length;
  const ip = {
    version: VERSION,
    length: ipHeader.size + length,
    fragment: DONT_FRAGMENT,
    hops: HOPS,
    protocol: PROTOCOL_UDP,
    source: Number(source.ip.value),
    destination: Number(destination.ip.value),
  };
  const udp = { source: source.port, destination: destination.port, length };
  const datagram = concat([udpHeader.encode(udp), payload]);
  const pseudo = pseudoHeader(source.ip, destination.ip, length);
  // 0 means that the checksum is missing.
  const checksum = checksumOf(concat([pseudo, datagram])) || 0xffff;
  return concat([
    destination.mac.toBytes(),
    source.mac.toBytes(),
    u16be.encode(ETHERTYPE_IPV4),
    ipHeader.encode({ ...ip, checksum: checksumOf(ipHeader.encode(ip)) }),
    udpHeader.encode({ ...udp, checksum }),
    payload,
  ]);
}

/**
 * Decodes a frame.
 *
 * @param hasChecksum Whether the sender has filled in the UDP checksum
 * @returns Undefined if the frame is not a complete and intact datagram
 */
export function decodeDatagram(
  frame: Bytes,
  hasChecksum: boolean,
): Datagram | undefined {
  try {
    const packet = frame.subarray(ETHERNET_BYTES);
    const ip = ipHeader.decode(packet);
    const headBytes = 4 * (ip.version & 0xf);
    const datagram = packet.subarray(headBytes, ip.length);
    const udp = udpHeader.decode(datagram);
    const isComplete = packet.length >= ip.length &&
      ip.protocol === PROTOCOL_UDP &&
      udp.length >= udpHeader.size && udp.length <= datagram.length;
    if (!isComplete || checksumOf(packet.subarray(0, headBytes)) !== 0) {
      return undefined;
    }
    const whole = datagram.subarray(0, udp.length);
    const [from, to] = [toIp(ip.source), toIp(ip.destination)];
    const pseudo = pseudoHeader(from, to, udp.length);
    const isChecked = hasChecksum && udp.checksum !== 0;
    if (isChecked && checksumOf(concat([pseudo, whole])) !== 0) {
      return undefined;
    }
    const [toMac, fromMac] = [frame.subarray(0, 6), frame.subarray(6, 12)];
    return {
      source: { mac: Mac.fromBytes(fromMac), ip: from, port: udp.source },
      destination: { mac: Mac.fromBytes(toMac), ip: to, port: udp.destination },
      payload: whole.slice(udpHeader.size),
    };
  } catch (error) {
    if (error instanceof RangeError) return undefined; // too short
    throw error;
  }
}

function toIp(value: number): Ip {
  return Ip.fromValue(4, BigInt(value));
}

/** The additional bytes that UDP's checksum covers. Source: RFC 768. */
function pseudoHeader(source: Ip, destination: Ip, length: number): Bytes {
  return concat([
    source.toBytes(),
    destination.toBytes(),
    u16be.encode(PROTOCOL_UDP),
    u16be.encode(length),
  ]);
}

/**
 * Returns the Internet checksum; 0 for bytes that contain their correct checksum.
 * Source: RFC 1071.
 */
export function checksumOf(bytes: Bytes): number {
  const view = viewOf(bytes);
  let sum = 0;
  for (let at = 0; at + 1 < bytes.length; at += 2) sum += view.getUint16(at);
  if (bytes.length % 2 === 1) sum += (bytes.at(-1) ?? 0) << 8;
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}
