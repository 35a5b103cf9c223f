/**
 * Reports that addresses and IPv6 routes of other namespaces change, without keeping
 * these namespaces alive.
 *
 * Source: net/netlink/af_netlink.c `do_one_broadcast`.
 *
 * @module
 */

import { NetlinkSocket, Protocol } from "../netlink/socket.ts";
import { NetNs } from "../netns.ts";
import { RTNLGRP_IPV6_IFADDR } from "./constants.ts";
import { Rtnl } from "./mod.ts";
import { ensureNsid } from "./nsid.ts";

/** Source: include/uapi/linux/rtnetlink.h. */
const RTNLGRP_IPV4_IFADDR = 5, RTNLGRP_IPV6_ROUTE = 11;
const GROUPS = [RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV6_ROUTE];
/** Size of the receive buffer, in bytes. The kernel reports an overflow. */
const UNREAD_BYTES = 64 * 1024;

/** Changes in the followed namespaces, and in further namespaces that have an nsid. */
export class AddressChanges implements Disposable {
  readonly #rtnl: Rtnl;
  readonly #notices: NetlinkSocket;

  private constructor(rtnl: Rtnl, notices: NetlinkSocket) {
    this.#rtnl = rtnl;
    this.#notices = notices;
  }

  /**
   * Starts listening.
   *
   * @param path Path of the namespace in which the followed namespaces get nsids
   * @throws {SyscallError} EPERM without CAP_NET_BROADCAST
   */
  static open(path: string): AddressChanges {
    using stack = new DisposableStack();
    const rtnl = stack.use(Rtnl.open(path));
    const notices = stack.use(
      NetlinkSocket.open(rtnl.netns, Protocol.Route),
    );
    notices.listenToAllNsids();
    for (const group of GROUPS) notices.subscribe(group, UNREAD_BYTES);
    stack.move();
    return new AddressChanges(rtnl, notices);
  }

  /**
   * Starts following a namespace.
   *
   * @throws {SyscallError} If the path is not a network namespace; EPERM
   */
  follow(path: string): void {
    using netns = NetNs.open(path);
    ensureNsid(this.#rtnl, netns);
  }

  /** Reports whether anything might have changed since the last call. */
  take(): boolean {
    return this.#notices.takeNotices();
  }

  /** Stops listening. */
  [Symbol.dispose](): void {
    this.#notices[Symbol.dispose]();
    this.#rtnl[Symbol.dispose]();
  }
}
