/**
 * What the kernel knows about the routers of a link: whether one has advertised
 * itself, and the options of advertisements that are for programs.
 *
 * @module
 */

import { type Bytes, i32, struct, u16, u32, u8 } from "../../net/bytes.ts";
import { isErrno } from "../errno.ts";
import { attributeSet, nested } from "../netlink/attribute.ts";
import { message, type RawMessage } from "../netlink/message.ts";
import { NetlinkSocket, Protocol } from "../netlink/socket.ts";
import type { NetNs } from "../netns.ts";
import { getLink, linkHeader } from "./link_message.ts";

/** Source: include/net/if_inet6.h `IF_RA_*`. */
const IF_RA_MANAGED = 0x40, IF_RA_RCVD = 0x20;
/** Source: include/uapi/linux/rtnetlink.h. */
const RTM_NEWNDUSEROPT = 68, RTNLGRP_ND_USEROPT = 20;
/** Source: RFC 4861, section 4.2. */
const ROUTER_ADVERTISEMENT = 134;
/** Room for options that have not been received yet, in bytes. */
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

/** What routers have advertised on a link. */
export interface RouterState {
  /** Whether an advertisement was received since the link came up. */
  readonly isAdvertised: boolean;
  /** Whether the router refers to DHCPv6 for addresses. */
  readonly isManaged: boolean;
}

/** Hears the routers of one link. */
export class RouterWatch implements Disposable {
  readonly #socket: NetlinkSocket;
  readonly #ifindex: number;

  private constructor(socket: NetlinkSocket, ifindex: number) {
    this.#socket = socket;
    this.#ifindex = ifindex;
  }

  /**
   * Begins to listen.
   *
   * @throws {SyscallError} If the namespace cannot be entered
   */
  static open(netns: NetNs, ifindex: number): RouterWatch {
    using stack = new DisposableStack();
    const socket = stack.use(NetlinkSocket.open(netns, Protocol.Route));
    socket.subscribe(RTNLGRP_ND_USEROPT, UNREAD_BYTES);
    stack.move();
    return new RouterWatch(socket, ifindex);
  }

  /** Takes the options that have arrived, as the router sent them; some may be lost. */
  takeOptions(): Bytes[] {
    const options: Bytes[] = [];
    for (;;) {
      try {
        const messages = this.#socket.receiveNotice();
        if (messages === undefined) return options;
        options.push(
          ...messages.flatMap((one) => routerOptionsIn(one, this.#ifindex)),
        );
      } catch (error) {
        if (!isErrno(error, "ENOBUFS")) throw error;
      }
    }
  }

  /** Stops listening. */
  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]();
  }
}

/** Returns the option that a message has, if it is of a router on the link. */
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
 * Returns what routers have advertised on a link.
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
