/**
 * Reads values from a prevResult for interface plugins and chained plugins.
 *
 * @module
 */

import type { CmdArgs } from "../../../cni/call/args.ts";
import { CniError, describeError, ErrorCode } from "../../../base/error.ts";
import type { Call } from "../../../cni/plugin.ts";
import type {
  Interface,
  IpConfig,
  Result,
} from "../../../cni/result/result.ts";
import { findFileId } from "../../../base/files/same_file.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { Cidr } from "../../../net/cidr.ts";
import { listAddresses } from "../link/configure_link.ts";
import { findHostEnd } from "../link/host_end.ts";
import { aliasOf, attachmentOf, isOfAnother } from "../owner/attachment.ts";
import type { Attachment } from "../../../cni/config/types.ts";
import { netnsIdOf } from "./sandbox.ts";

/**
 * Reads prevResult for a tear-down. Returns undefined if it is invalid.
 */
export function readablePrevResult(
  call: Pick<Call, "prevResult" | "log">,
): Result | undefined {
  try {
    return call.prevResult;
  } catch (error) {
    call.log.warn("Ignoring prevResult", { problem: describeError(error) });
    return undefined;
  }
}

/**
 * Returns the prevResult, which CHECK requires.
 *
 * @param message The error's message if it is missing
 * @throws {CniError} 7 if it is missing; 6 or 7 if it is invalid
 */
export function requirePrevResult(
  { prevResult }: Pick<Call, "prevResult">,
  message: string,
): Result {
  if (prevResult !== undefined) return prevResult;
  throw new CniError(ErrorCode.InvalidNetworkConfig, message);
}

/**
 * Lists the addresses of the call's interface, including addresses that name no
 * interface.
 */
export function ownIpsOf(result: Result, { ifName }: CmdArgs): IpConfig[] {
  return result.ips.filter(({ interface: index }) =>
    index === undefined || result.interfaces[index]?.name === ifName
  );
}

/** Lists the same addresses as {@linkcode ownIpsOf}, with their prefix lengths. */
export function addressesOf(result: Result, args: CmdArgs): Cidr[] {
  return ownIpsOf(result, args).map(({ address }) => address);
}

/**
 * Returns the result without addresses and routes that chained plugins added to
 * other interfaces.
 */
export function ownPartOf(result: Result, args: CmdArgs): Result {
  const ips = ownIpsOf(result, args);
  const others = result.ips.filter((ip) => !ips.includes(ip));
  return {
    ...result,
    ips,
    routes: result.routes.filter(({ gw }) =>
      gw === undefined || !others.some(({ address }) => address.contains(gw))
    ),
  };
}

/**
 * Reports whether the CNI_NETNS of a late DEL refers to a different pod's sandbox, as
 * a path like `/proc/PID/ns/net` does once the PID is reused. It compares the MAC
 * addresses and IP addresses of the interfaces in prevResult. A value that is missing
 * on either side is not compared. A different MAC address alone proves nothing if the
 * interface has one of its IP addresses, because bonds, VRRP and virtual machines
 * change MAC addresses. An equal MAC address proves nothing for an ipvlan or VLAN
 * link, which has its master's MAC address. Without a prevResult, the interface's
 * owner decides, if a link names it.
 *
 * @param sandbox The namespace to which CNI_NETNS currently refers
 */
export function isOfAnotherPod(
  sandbox: Rtnl,
  call: Pick<Call, "prevResult" | "log" | "args" | "network" | "hostNetns">,
): boolean {
  const prevResult = readablePrevResult(call);
  if (prevResult === undefined) return hasAnotherOwner(sandbox, call);
  const owner = { ...attachmentOf(call), netns: call.args.netns };
  return isOfAnotherResult(sandbox, prevResult, owner);
}

/**
 * Reports, like {@linkcode isOfAnotherPod}, whether a namespace is not the namespace
 * of an attachment with a result.
 *
 * @param owner The attachment, and the path of the namespace
 */
export function isOfAnotherResult(
  sandbox: Rtnl,
  { interfaces, ips }: Result,
  owner: Attachment & { readonly netns: string },
): boolean {
  const { ifName, netns } = owner;
  const listed = interfaces.some(({ sandbox }) => sandbox)
    ? interfaces
    : [{ name: ifName, sandbox: netns }];
  return listed.some((one, position) => {
    if (!one.sandbox) return false;
    if (one.sandbox !== netns && isOtherNetns(one.sandbox, sandbox)) {
      return true;
    }
    const addresses = ips.filter(({ interface: index }) =>
      index === undefined ? one.name === ifName : index === position
    );
    return isOtherLink(sandbox, one, { addresses, alias: aliasOf(owner) });
  });
}

/**
 * Reports whether the call's interface certainly belongs to a different attachment. A
 * DEL without prevResult follows an ADD that failed, possibly because the different
 * attachment had the name, or it is late and the namespace has been reused.
 */
function hasAnotherOwner(
  sandbox: Rtnl,
  call: Pick<Call, "args" | "network" | "hostNetns">,
): boolean {
  const link = sandbox.link.find(call.args.ifName);
  if (link === undefined) return false;
  const attachment = attachmentOf(call);
  if (isOfAnother(link, attachment)) return true;
  if (link.kind !== "veth") return false;
  using host = Rtnl.open(call.hostNetns);
  const end = findHostEnd(host, sandbox, link);
  return end !== undefined && isOfAnother(end, attachment);
}

/** Reports whether a path certainly leads to a different namespace. */
function isOtherNetns(path: string, sandbox: Rtnl): boolean {
  const id = findFileId(path);
  return id !== undefined && id !== netnsIdOf(sandbox.netns);
}

/**
 * Kinds of links that have their master's MAC address, like all such links on the
 * master.
 */
export const SHARED_MAC: readonly string[] = ["ipvlan", "vlan"];

/** @param own The addresses of the attachment's link */
function isOtherLink(
  sandbox: Rtnl,
  { name, mac }: Interface,
  own: { readonly addresses: readonly IpConfig[]; readonly alias: string },
): boolean {
  const link = sandbox.link.find(name);
  if (link === undefined || link.alias === own.alias) return false;
  const knowsMac = Boolean(mac) && link.mac !== undefined;
  const isSame = knowsMac && hasMac(link, mac);
  if (isSame && !SHARED_MAC.includes(link.kind ?? "")) return false;
  const isOwn = hasAnyAddress(sandbox, link, own.addresses);
  return !(isOwn ?? (isSame || !knowsMac));
}

/** Reports whether a link has a MAC address, which can be written in any form. */
export function hasMac({ mac }: Pick<Link, "mac">, text = ""): boolean {
  const digits = text.replaceAll(/[:.-]/g, "").toLowerCase();
  return mac !== undefined && mac.hex === digits;
}

/**
 * Reports whether a link has any of the addresses. Returns undefined if either side
 * has none to compare.
 */
export function hasAnyAddress(
  netns: Rtnl,
  link: Link,
  ips: readonly IpConfig[],
): boolean | undefined {
  if (ips.length === 0) return undefined;
  const present = listAddresses(netns, link)
    .filter(({ address }) => !address.ip.isLinkLocal);
  if (present.length === 0) return undefined;
  return present.some((own) =>
    ips.some((ip) => ip.address.equals(own.address))
  );
}
