/**
 * The kernel's information about the routers on a link: whether a router has
 * advertised itself, and the options of advertisements that are for programs.
 *
 * @module
 */

import { type Bytes, i32, struct, u16, u32, u8 } from "../../net/bytes.ts";
import { isErrno } from "../errno.ts";
import { readTogether } from "../libc.ts";
import { attributeSet, nested } from "../netlink/attribute.ts";
import { message, type RawMessage } from "../netlink/message.ts";
import { decodeAnswers } from "../netlink/request.ts";
import { NetlinkSocket, Protocol } from "../netlink/socket.ts";
import type { NetNs } from "../netns.ts";
import type { Ip } from "../../net/ip.ts";
import { delAddress } from "./address_message.ts";
import { RTNLGRP_IPV6_IFADDR } from "./constants.ts";
import { getLink, linkHeader } from "./link_message.ts";

/** Source: include/net/if_inet6.h `IF_RA_*`. */
const IF_RA_MANAGED = 0x40, IF_RA_RCVD = 0x20;
/** Source: include/uapi/linux/if_addr.h. */
const IFA_F_DADFAILED = 0x08;
/** Source: include/uapi/linux/rtnetlink.h. */
const RTM_NEWNDUSEROPT = 68, RTNLGRP_ND_USEROPT = 20;
/** Source: RFC 4861, section 4.2. */
const ROUTER_ADVERTISEMENT = 134;
/** Size of the receive buffer, in bytes. */
const UNREAD_BYTES = 256 * 1024;

/** Fixed header of RTM_NEWNDUSEROPT. Source: `struct nduseroptmsg`. */
const optionHeader = struct({
  family: u8,
  padding: u8,
  length: u16,
  ifindex: i32,
  icmpType: u8,
  icmpCode: u8,
  reserved: u16,
  alsoReserved: u32,
});

/** A link with its IPv6 state. Source: include/uapi/linux/if_link.h `IFLA_INET6_FLAGS`. */
const linkState = message(
  "RTM_NEWLINK",
  16,
  linkHeader,
  attributeSet({
    families: [
      26,
      nested(attributeSet({
        inet6: [10, nested(attributeSet({ flags: [1, u32] }))],
      })),
    ],
  }),
);

/** Properties that routers have advertised on a link. */
export interface RouterState {
  /** Whether an advertisement was received since the link came up. */
  readonly isAdvertised: boolean;
  /** Whether the router's advertisement refers to DHCPv6 for addresses. */
  readonly isManaged: boolean;
}

/** The events on a link. */
export interface RouterNews {
  /** Options of advertisements, as the router sent them. */
  readonly options: readonly Bytes[];
  /** Addresses that the kernel has deleted because a different host uses them. */
  readonly deleted: readonly Ip[];
}

/** Receives the advertisements of the routers on a link. */
export class RouterWatch implements Disposable {
  readonly #socket: NetlinkSocket;
  readonly #ifindex: number;

  private constructor(socket: NetlinkSocket, ifindex: number) {
    this.#socket = socket;
    this.#ifindex = ifindex;
  }

  /**
   * Starts listening.
   *
   * @throws {SyscallError} If the namespace cannot be entered
   */
  static open(netns: NetNs, ifindex: number): RouterWatch {
    using stack = new DisposableStack();
    const socket = stack.use(NetlinkSocket.open(netns, Protocol.Route));
    for (const group of [RTNLGRP_ND_USEROPT, RTNLGRP_IPV6_IFADDR]) {
      socket.subscribe(group, UNREAD_BYTES);
    }
    stack.move();
    return new RouterWatch(socket, ifindex);
  }

  /** Returns the events since the last call. Some might be lost. */
  take(): RouterNews {
    const messages: RawMessage[] = [];
    const read = (): RawMessage[] | undefined => {
      try {
        return this.#socket.receiveNotice();
      } catch (error) {
        if (isErrno(error, "ENOBUFS")) return [];
        throw error;
      }
    };
    for (const notice of readTogether(read)) messages.push(...notice);
    return {
      options: messages.flatMap((one) => routerOptionsIn(one, this.#ifindex)),
      deleted: decodeAnswers(messages, delAddress).flatMap(
        ({ header: { ifindex }, attributes: { address, flags = 0 } }) =>
          ifindex === this.#ifindex && (flags & IFA_F_DADFAILED) !== 0
            ? address ?? []
            : [],
      ),
    };
  }

  /** Stops listening. */
  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]();
  }
}

/** Returns the option in a message, if a router on the link sent it. */
export function routerOptionsIn(
  { type, body }: Pick<RawMessage, "type" | "body">,
  ifindex: number,
): Bytes[] {
  if (type !== RTM_NEWNDUSEROPT || body.length < optionHeader.size) return [];
  const header = optionHeader.decode(body);
  const end = optionHeader.size + header.length;
  const isWanted = header.icmpType === ROUTER_ADVERTISEMENT &&
    header.ifindex === ifindex && end <= body.length;
  return isWanted ? [body.slice(optionHeader.size, end)] : [];
}

/**
 * Returns the properties that routers have advertised on a link.
 *
 * @throws {NetlinkError} ENODEV
 */
export function routerStateOf(
  socket: NetlinkSocket,
  ifindex: number,
): RouterState {
  const request = { header: { index: ifindex } };
  const { attributes } = socket.get(getLink, request, linkState);
  const flags = attributes.families?.inet6?.flags ?? 0;
  return {
    isAdvertised: (flags & IF_RA_RCVD) !== 0,
    isManaged: (flags & IF_RA_MANAGED) !== 0,
  };
}
