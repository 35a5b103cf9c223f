/**
 * The veth pair of an attachment, with an end on the host and an end in the sandbox.
 *
 * @module
 */

import { CniError } from "../../../base/error.ts";
import type { Interface } from "../../../cni/result/result.ts";
import { isErrno } from "../../../ffi/errno.ts";
import type { Link, NewVeth } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { Mac } from "../../../net/mac.ts";
import { aliasOf, isOfAnother } from "../owner/attachment.ts";
import type { Attachment } from "../../../cni/config/types.ts";
import { readyHostEndForIpv6 } from "../address/ipv6.ts";
import { checkIfNameIsFree } from "../sandbox/sandbox.ts";
import { stableName } from "../owner/stable_name.ts";
import { describeLink } from "./describe_link.ts";

/** The part of a link that is needed to configure it. */
export type LinkEnd = Pick<Link, "index" | "name">;

/** Both ends of the veth pair. */
export interface Veth<End extends LinkEnd = LinkEnd> {
  /** The end on the host. */
  readonly host: End;
  /** The end in the sandbox. */
  readonly container: End;
}

/** A newly created veth pair. */
export interface ConnectedVeth extends Veth {
  /** Whether it replaces an earlier veth pair of the same attachment. */
  readonly isReplacement: boolean;
}

/** Options of a veth pair. */
export interface VethOptions {
  /** MTU of both ends in bytes; the kernel's default if absent, 0 or less. */
  readonly mtu?: number | undefined;
  /** MAC address of the container's end; random if absent. */
  readonly mac?: Mac | undefined;
  /** Index of the bridge that the host's end becomes a port of. */
  readonly masterIndex?: number | undefined;
}

/**
 * Creates the veth pair, with the host's end up and the container's end down.
 * Leaves nothing behind if it fails.
 *
 * @throws {CniError} 4 if the interface's name was taken in between
 * @throws {Error} If the kernel refuses it
 */
export function connectVeth(
  host: Rtnl,
  sandbox: Rtnl,
  attachment: Attachment,
  { mtu = 0, mac, masterIndex }: VethOptions,
): ConnectedVeth {
  const name = hostIfNameOf(attachment);
  const { ifName } = attachment;
  try {
    const { link: hostEnd, isReplacement } = addVeth(
      host,
      sandbox,
      attachment,
      {
        name,
        mtu: mtu > 0 ? mtu : undefined,
        // This prevents udev from changing the MAC address that ADD returns.
        mac: Mac.random(),
        masterIndex,
        alias: aliasOf(attachment),
        peer: { netns: sandbox.netns, name: ifName, mac },
      },
    );
    readyHostEndForIpv6(host.netns, name);
    if (hostEnd.linkIndex === undefined) throw new Error("it has no peer");
    const container = { index: hostEnd.linkIndex, name: ifName };
    return { host: hostEnd, container, isReplacement };
  } catch (error) {
    // A different call connected the sandbox in between. Its veth pair stays.
    if (error instanceof CniError) throw error;
    const hostEnd = findOwnHostEnd(host, attachment);
    if (hostEnd !== undefined) host.link.ensureGone(hostEnd.index);
    throw new Error(`Cannot connect "${ifName}" to "${name}"`, {
      cause: error,
    });
  }
}

/**
 * Adds the veth pair. The host's end is named after the attachment. If that name is
 * taken, but the sandbox is not connected, the veth pair remains from an earlier
 * attachment with the same names that had no DEL, and is replaced.
 */
function addVeth(
  host: Rtnl,
  sandbox: Rtnl,
  attachment: Attachment,
  veth: NewVeth,
): { link: Link; isReplacement: boolean } {
  try {
    return { link: host.link.addVeth(veth), isReplacement: false };
  } catch (error) {
    if (!isErrno(error, "EEXIST")) throw error;
    checkIfNameIsFree(sandbox, veth.peer.name);
    const existing = findOwnHostEnd(host, attachment);
    if (existing === undefined) throw error;
    host.link.ensureGone(existing.index);
    return { link: host.link.addVeth(veth), isReplacement: true };
  }
}

/**
 * Looks up both ends, which also ensures that they pass packets. The veth pair is
 * ready as soon as the container's end is up, but the kernel detects this a little
 * later unless it is queried, and drops packets until then.
 */
export function lookUpVeth(
  host: Rtnl,
  sandbox: Rtnl,
  veth: Veth,
): Veth<Link> {
  return {
    container: sandbox.link.get(veth.container.name),
    host: host.link.get(veth.host.name),
  };
}

/** The interfaces of a result. */
export interface DescribedVeth {
  readonly interfaces: readonly Interface[];
  /** The position of the container's end, which has the addresses. */
  readonly container: number;
}

/**
 * Describes both ends for a result.
 *
 * @param netns CNI_NETNS
 * @param bridge The interface that comes before them, if any
 */
export function describeVeth(
  { host, container }: Veth<Link>,
  netns: string,
  ...bridge: readonly Interface[]
): DescribedVeth {
  const end = { ...describeLink(container), sandbox: netns };
  const interfaces = [...bridge, describeLink(host), end];
  return { interfaces, container: interfaces.length - 1 };
}

/** The names of this project's host ends; the Go plugins' names have eight digits. */
const HOST_PREFIX = "veth", OUR_HOST_END = /^veth[0-9a-f]{11}$/;

/** Names the host's end after the attachment, so that DEL finds it without the sandbox. */
export function hostIfNameOf(
  { network, containerId, ifName }: Attachment,
): string {
  return stableName(HOST_PREFIX, network, containerId, ifName);
}

/**
 * Finds the attachment's host end. A link with its name might belong to a different
 * attachment.
 */
export function findOwnHostEnd(
  host: Rtnl,
  attachment: Attachment,
): Link | undefined {
  const link = host.link.find(hostIfNameOf(attachment));
  return link === undefined || isOfAnother(link, attachment) ? undefined : link;
}

/** Reports whether a name has the form of this project's host ends. */
export function isOurHostEnd(name: string): boolean {
  return OUR_HOST_END.test(name);
}
