/**
 * The numbers that a namespace has for others, as in `linkNetnsId` of a link.
 *
 * Source: include/uapi/linux/net_namespace.h, net/core/net_namespace.c
 * `rtnl_net_getid`.
 *
 * @module
 */

import { i32, struct, u32, u8 } from "../../net/bytes.ts";
import { isErrno } from "../errno.ts";
import { attributeSet } from "../netlink/attribute.ts";
import { message } from "../netlink/message.ts";
import type { NetNs } from "../netns.ts";
import type { Rtnl } from "./mod.ts";

/** Fixed header. Source: include/uapi/linux/rtnetlink.h `struct rtgenmsg`. */
const header = struct({ family: u8, padding1: u8, padding2: u8, padding3: u8 });
const attributes = attributeSet({ number: [1, i32], fd: [3, u32] });
const newNumber = message("RTM_NEWNSID", 88, header, attributes);
const getNumber = message("RTM_GETNSID", 90, header, attributes);

/** Asks for a number that is free. */
const ANY = -1;

/** Returns the number that one namespace has for another; undefined for none. */
export function numberOfNetns(
  { socket }: Pick<Rtnl, "socket">,
  { fd }: Pick<NetNs, "fd">,
): number | undefined {
  const request = { header: {}, attributes: { fd } };
  const { number = -1 } = socket.get(getNumber, request, newNumber).attributes;
  return number < 0 ? undefined : number;
}

/**
 * Gives a namespace a number for another one, unless it has one. The number does not
 * keep the namespace alive.
 *
 * @throws {NetlinkError} EPERM
 */
export function numberNetns(
  { socket }: Pick<Rtnl, "socket">,
  { fd }: Pick<NetNs, "fd">,
): void {
  try {
    const attributes = { fd, number: ANY };
    socket.request(newNumber, { header: {}, attributes });
  } catch (error) {
    if (!isErrno(error, "EEXIST")) throw error;
  }
}
