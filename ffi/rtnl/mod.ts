/**
 * rtnetlink of one namespace: links, addresses and routes. Other requests share
 * its socket: `new NeighborRequests(rtnl.socket)`.
 *
 * @module
 */

import { NetlinkSocket, Protocol } from "../netlink/socket.ts";
import { NetNs } from "../netns.ts";
import { AddressRequests } from "./address.ts";
import { LinkRequests } from "./link.ts";
import { RouteRequests } from "./route.ts";

/** One open namespace with one netlink socket in it. */
export class Rtnl implements Disposable {
  /** For requests that this class does not have. Owned by this object. */
  readonly socket: NetlinkSocket;
  /** The namespace, for sysctls and for creating links in it. */
  readonly netns: NetNs;
  /** Its links. */
  readonly link: LinkRequests;
  /** Its links' addresses. */
  readonly address: AddressRequests;
  /** Its routes. */
  readonly route: RouteRequests;

  private constructor(netns: NetNs, socket: NetlinkSocket) {
    this.socket = socket;
    this.netns = netns;
    this.link = new LinkRequests(socket);
    this.address = new AddressRequests(socket);
    this.route = new RouteRequests(socket);
  }

  /**
   * Opens the namespace at a path.
   *
   * @throws {SyscallError} If the path cannot be opened or is not a network
   * namespace (see `isMissingNetns`)
   */
  static open(path: string): Rtnl {
    const netns = NetNs.open(path);
    try {
      return new Rtnl(netns, NetlinkSocket.open(netns, Protocol.Route));
    } catch (error) {
      netns[Symbol.dispose]();
      throw error;
    }
  }

  /** Closes the socket and the namespace; a second call does nothing. */
  [Symbol.dispose](): void {
    this.socket[Symbol.dispose]();
    this.netns[Symbol.dispose]();
  }
}
