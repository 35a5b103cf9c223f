/**
 * Namespace IDs (nsid): the numbers by which a network namespace identifies other
 * namespaces, as in `linkNsid` of a link.
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
const attributes = attributeSet({ nsid: [1, i32], fd: [3, u32] });
const newNsid = message("RTM_NEWNSID", 88, header, attributes);
const getNsid = message("RTM_GETNSID", 90, header, attributes);

/**
 * Makes the kernel choose the nsid. Source: linux/net_namespace.h
 * `NETNSA_NSID_NOT_ASSIGNED`.
 */
const ANY = -1;

/** Returns the nsid of a namespace in another namespace; undefined for none. */
export function findNsid(
  { socket }: Pick<Rtnl, "socket">,
  { fd }: Pick<NetNs, "fd">,
): number | undefined {
  const request = { header: {}, attributes: { fd } };
  const { nsid = -1 } = socket.get(getNsid, request, newNsid).attributes;
  return nsid < 0 ? undefined : nsid;
}

/**
 * Assigns a namespace an nsid in another namespace, unless it has one. An nsid does
 * not keep the namespace alive.
 *
 * @throws {NetlinkError} EPERM
 */
export function ensureNsid(
  { socket }: Pick<Rtnl, "socket">,
  { fd }: Pick<NetNs, "fd">,
): void {
  try {
    const attributes = { fd, nsid: ANY };
    socket.request(newNsid, { header: {}, attributes });
  } catch (error) {
    if (!isErrno(error, "EEXIST")) throw error;
  }
}
