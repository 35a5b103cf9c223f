/**
 * rtnetlink of a namespace: links, addresses and routes. Further request classes
 * share its socket: `new NeighborRequests(rtnl.socket)`.
 *
 * @module
 */

import { NetlinkSocket, Protocol } from "../netlink/socket.ts";
import { NetNs } from "../netns.ts";
import { AddressRequests } from "./address.ts";
import { LinkRequests } from "./link.ts";
import { RouteRequests } from "./route.ts";

/** The limit of objects in a list of a container's namespace. */
const MOST_OBJECTS = 65_536;

/** An open namespace with a netlink socket in it. */
export class Rtnl implements Disposable {
  /** For requests without a method here. Owned by this object. */
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
    return Rtnl.#openIn(NetNs.open(path), Infinity);
  }

  /**
   * Opens the namespace at a path that a container or another user controls, as
   * {@linkcode NetNs.openUntrusted} does. Lists of more than 65 536 objects fail with
   * EMSGSIZE, because they could exhaust the memory; the socket must then be closed.
   *
   * @throws {SyscallError} Like {@linkcode Rtnl.open}
   */
  static openUntrusted(path: string): Rtnl {
    return Rtnl.#openIn(NetNs.openUntrusted(path), MOST_OBJECTS);
  }

  static #openIn(netns: NetNs, mostAnswers: number): Rtnl {
    try {
      const socket = NetlinkSocket.open(netns, Protocol.Route, mostAnswers);
      return new Rtnl(netns, socket);
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
