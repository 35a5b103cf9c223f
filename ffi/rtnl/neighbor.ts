/**
 * Neighbours (ARP and NDP entries) of a namespace.
 *
 * @module
 */

import type { Ip, IpFamily } from "../../net/ip.ts";
import type { Mac } from "../../net/mac.ts";
import { isErrno } from "../errno.ts";
import { Flag } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import { addressFamily, AF_BRIDGE, AF_UNSPEC } from "./constants.ts";
import { delNeighbor, getNeighbor, newNeighbor } from "./neighbor_message.ts";

/** Source: include/uapi/linux/neighbour.h. */
const NUD_REACHABLE = 0x02, NUD_NOARP = 0x40, NUD_PERMANENT = 0x80;
const NTF_PROXY = 0x08;

/** A neighbour: the link-layer address of an IP address on a link. */
export interface Neighbor {
  /** Index of the link. */
  readonly ifindex: number;
  /** The address. */
  readonly ip: Ip;
  /** The link-layer address; undefined while it is being resolved. */
  readonly mac: Mac | undefined;
  /** Whether it was configured and never expires. */
  readonly isPermanent: boolean;
  /** Whether its reachability was confirmed within about the last half minute. */
  readonly isReachable: boolean;
}

/**
 * A forwarding database entry: the port to which a bridge sends frames for a MAC
 * address.
 */
export interface ForwardingEntry {
  /** Index of the port, or of the bridge for the bridge's own addresses. */
  readonly ifindex: number;
  /** Index of the bridge. */
  readonly bridgeIndex: number;
  /** The destination MAC address. */
  readonly mac: Mac;
  /** Whether it was configured instead of learned from a frame. */
  readonly isStatic: boolean;
}

/** Neighbours of the namespace in which the socket was opened. */
export class NeighborRequests {
  readonly #socket: NetlinkSocket;

  /**
   * Uses an open socket.
   *
   * @param socket Borrowed, not closed
   */
  constructor(socket: NetlinkSocket) {
    this.#socket = socket;
  }

  /**
   * Sets a permanent neighbour, replacing any entry for the address.
   *
   * @throws {NetlinkError} ENODEV if the link does not exist
   */
  replace(ifindex: number, address: Ip, macAddress: Mac): void {
    this.#socket.request(newNeighbor, {
      flags: Flag.Create | Flag.Replace,
      header: {
        family: addressFamily(address.family),
        ifindex,
        state: NUD_PERMANENT,
      },
      attributes: { destination: address, linkLayerAddress: macAddress },
    });
  }

  /**
   * Deletes a neighbour.
   *
   * @throws {NetlinkError} ENOENT if it does not exist
   */
  del(ifindex: number, address: Ip): void {
    this.#socket.request(delNeighbor, {
      header: { family: addressFamily(address.family), ifindex },
      attributes: { destination: address },
    });
  }

  /**
   * Makes the kernel answer on a link for an address of another link. Before Linux
   * 6.17, the kernel deletes the entry when the link loses its carrier.
   *
   * @throws {NetlinkError} ENODEV if the link does not exist
   */
  addProxy(ifindex: number, address: Ip): void {
    this.#socket.request(newNeighbor, {
      flags: Flag.Create | Flag.Replace,
      header: {
        family: addressFamily(address.family),
        ifindex,
        state: NUD_PERMANENT,
        flags: NTF_PROXY,
      },
      attributes: { destination: address },
    });
  }

  /** Lists the addresses of a family for which the kernel answers on a link. */
  listProxies(ifindex: number, family: IpFamily): Ip[] {
    const header = { family: addressFamily(family), flags: NTF_PROXY };
    const request = { header, attributes: { ifindex } };
    return this.#socket.dump(getNeighbor, request, newNeighbor)
      .flatMap(({ header, attributes: { destination } }) =>
        header.ifindex === ifindex && destination ? [destination] : []
      );
  }

  /** Lists the forwarding entries of all bridges. */
  listForwarding(): ForwardingEntry[] {
    const request = { header: { family: AF_BRIDGE } };
    return this.#socket.dump(getNeighbor, request, newNeighbor)
      .flatMap((answer) => forwardingOf(answer) ?? []);
  }

  /**
   * Finds where a bridge sends untagged frames for a MAC address.
   *
   * @returns Undefined without an entry, and always before Linux 5.0
   */
  findForwarding(bridgeIndex: number, mac: Mac): ForwardingEntry | undefined {
    try {
      return forwardingOf(this.#socket.get(getNeighbor, {
        header: { family: AF_BRIDGE },
        attributes: { linkLayerAddress: mac, master: bridgeIndex },
      }, newNeighbor));
    } catch (error) {
      if (isErrno(error, "ENOENT", "EOPNOTSUPP")) return undefined;
      throw error;
    }
  }

  /** Lists the neighbours on a link, of a family, or all neighbours. */
  list(filter: { ifindex?: number; family?: IpFamily } = {}): Neighbor[] {
    const family = filter.family === undefined
      ? AF_UNSPEC
      : addressFamily(filter.family);
    const answers = this.#socket.dump(
      getNeighbor,
      { header: { family }, attributes: { ifindex: filter.ifindex } },
      newNeighbor,
    );
    return answers.flatMap(({ header, attributes }) =>
      attributes.destination === undefined ||
        (filter.ifindex ?? header.ifindex) !== header.ifindex
        ? []
        : [{
          ifindex: header.ifindex,
          ip: attributes.destination,
          mac: attributes.linkLayerAddress,
          isPermanent: (header.state & NUD_PERMANENT) !== 0,
          isReachable: (header.state & NUD_REACHABLE) !== 0,
        }]
    );
  }
}

function forwardingOf(
  { header, attributes: { linkLayerAddress: mac, master } }: ReturnType<
    typeof newNeighbor.decode
  >,
): ForwardingEntry | undefined {
  if (header.family !== AF_BRIDGE || mac === undefined) return undefined;
  return master === undefined ? undefined : {
    ifindex: header.ifindex,
    bridgeIndex: master,
    mac,
    isStatic: (header.state & (NUD_NOARP | NUD_PERMANENT)) !== 0,
  };
}
