/**
 * ARP: requests the owner of an IPv4 address, and receives all answers.
 *
 * Source: RFC 5227, section 2.1.1.
 *
 * @module
 */

import { viewOf } from "../../net/bytes.ts";
import { Ip } from "../../net/ip.ts";
import { Mac } from "../../net/mac.ts";
import * as libc from "../libc.ts";
import type { NetNs } from "../netns.ts";
import { LinkSocket, type SocketLink } from "./link_socket.ts";

/** Source: include/uapi/linux/if_ether.h, if_arp.h. */
const ETH_P_ARP = 0x0806, ETH_P_IP = 0x0800, ARPHRD_ETHER = 1;
const REQUEST = 1, REPLY = 2;
/** Offsets of a frame's fields. */
const Layout = {
  type: 12,
  arp: 14,
  operation: 20,
  sender: 22,
  ip: 28,
  end: 42,
};
/** Longest frame to read, in bytes. */
const FRAME_BYTES = 64;

/** A host that uses an address. */
export interface AddressOwner {
  readonly ip: Ip;
  readonly mac: Mac;
}

/** A request or an answer. */
interface ArpMessage {
  readonly operation: number;
  readonly sender: AddressOwner;
  /** The requested address. */
  readonly target: Ip;
}

/** A socket for ARP on a link. */
export class ArpSocket extends LinkSocket {
  readonly #mac: Mac;

  /**
   * Opens a socket on a link. It stays in the link's namespace.
   *
   * @throws {SyscallError} ENODEV, ENETDOWN; EPERM without CAP_NET_RAW
   */
  constructor(netns: NetNs, { index, mac }: SocketLink) {
    super(netns, { ifindex: index, etherType: ETH_P_ARP }, FRAME_BYTES);
    this.#mac = mac;
  }

  /**
   * Sends an ARP request for an address.
   *
   * @param sender The sender's own address; undefined for an ARP probe
   * @throws {SyscallError} ENETDOWN
   */
  ask(ip: Ip, sender?: Ip): void {
    const frame = new Uint8Array(Layout.end);
    const view = viewOf(frame);
    const mac = Uint8Array.fromHex(this.#mac.hex);
    frame.fill(0xff, 0, 6);
    frame.set(mac, 6);
    view.setUint16(Layout.type, ETH_P_ARP);
    view.setUint16(Layout.arp, ARPHRD_ETHER);
    view.setUint16(Layout.arp + 2, ETH_P_IP);
    frame.set([6, 4], Layout.arp + 4);
    view.setUint16(Layout.operation, REQUEST);
    frame.set(mac, Layout.sender);
    frame.set(sender?.toBytes() ?? [], Layout.ip);
    frame.set(ip.toBytes(), Layout.end - 4);
    libc.send(this.fd, frame, 0);
  }

  /** Receives the answers that have arrived. */
  *receive(): Generator<AddressOwner> {
    for (const { operation, sender } of this.#messages()) {
      if (operation === REPLY) yield sender;
    }
  }

  /**
   * Receives claims that have arrived: from hosts that use an address, or probe for
   * it.
   *
   * Source: RFC 5227, section 2.1.1.
   */
  *receiveClaims(): Generator<AddressOwner> {
    for (const { operation, sender, target } of this.#messages()) {
      // This host's own request, which a switch has sent back.
      if (operation === REQUEST && sender.mac.equals(this.#mac)) continue;
      if (!sender.ip.isUnspecified) yield sender;
      else if (operation === REQUEST) yield { ip: target, mac: sender.mac };
    }
  }

  *#messages(): Generator<ArpMessage> {
    for (const frame of this.frames()) {
      if (frame.length < Layout.end) continue;
      const ipAt = (at: number): Ip => Ip.fromBytes(frame.slice(at, at + 4));
      yield {
        operation: viewOf(frame).getUint16(Layout.operation),
        sender: {
          ip: ipAt(Layout.ip),
          mac: new Mac(frame.slice(Layout.sender, Layout.sender + 6)),
        },
        target: ipAt(Layout.end - 4),
      };
    }
  }
}
