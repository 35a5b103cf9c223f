/**
 * The cable of an attachment: a veth with one end in the host and one in the
 * sandbox.
 *
 * @module
 */

import { CniError } from "../../cni/error.ts";
import type { Interface } from "../../cni/result.ts";
import { isErrno } from "../../ffi/errno.ts";
import type { Link, NewVeth } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Mac } from "../../net/mac.ts";
import { aliasOf, type Attachment, isOfAnother } from "./attachment.ts";
import { readyHostEndForIpv6 } from "./ipv6.ts";
import { checkIfNameIsFree } from "./sandbox.ts";
import { stableName } from "./stable_name.ts";

/** What is needed of a link to configure it. */
export type LinkEnd = Pick<Link, "index" | "name">;

/** Both ends of the cable. */
export interface Veth<End extends LinkEnd = LinkEnd> {
  /** The end in the host. */
  readonly host: End;
  /** The end in the sandbox. */
  readonly container: End;
}

/** A cable that was just made. */
export interface ConnectedVeth extends Veth {
  /** One of the same attachment was there before. */
  readonly isReplacement: boolean;
}

/** What a cable may be like. */
export interface CableOptions {
  /** MTU of both ends in bytes; the kernel's default if absent, 0 or less. */
  readonly mtu?: number | undefined;
  /** MAC of the container's end; the kernel chooses one if absent. */
  readonly mac?: Mac | undefined;
  /** Index of the bridge that the host's end becomes a port of. */
  readonly masterIndex?: number | undefined;
}

/**
 * Creates the cable, the host's end up and the container's end still down.
 * Leaves nothing if it fails.
 *
 * @throws {CniError} 4 if the interface's name was taken meanwhile
 * @throws {Error} If the kernel refuses it
 */
export function connectVeth(
  host: Rtnl,
  sandbox: Rtnl,
  attachment: Attachment,
  { mtu = 0, mac, masterIndex }: CableOptions,
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
        masterIndex,
        peer: { netns: sandbox.netns, name: ifName, mac },
      },
    );
    host.link.setAlias(hostEnd.index, aliasOf(attachment));
    readyHostEndForIpv6(host.netns, name);
    if (hostEnd.linkIndex === undefined) throw new Error("it has no peer");
    const container = { index: hostEnd.linkIndex, name: ifName };
    return { host: hostEnd, container, isReplacement };
  } catch (error) {
    // Another call has connected the sandbox meanwhile: its cable stays.
    if (error instanceof CniError) throw error;
    const hostEnd = findOwnHostEnd(host, attachment);
    if (hostEnd !== undefined) host.link.ensureGone(hostEnd.index);
    throw new Error(`Cannot connect "${ifName}" to "${name}"`, {
      cause: error,
    });
  }
}

/**
 * The host's end is named after the attachment. One that is there already, but
 * not connected to this sandbox, was left by a tear-down of this very attachment
 * that did not come about.
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
    const leftover = findOwnHostEnd(host, attachment);
    if (leftover === undefined) throw error;
    host.link.ensureGone(leftover.index);
    return { link: host.link.addVeth(veth), isReplacement: true };
  }
}

/**
 * Looks at both ends, which makes sure that they carry: they do so from the
 * moment that the container's end comes up, but the kernel takes note a little
 * later, unless it is asked for the link, and drops what is sent before.
 */
export function settleVeth(
  host: Rtnl,
  sandbox: Rtnl,
  veth: Veth,
): Veth<Link> {
  return {
    container: sandbox.link.get(veth.container.name),
    host: host.link.get(veth.host.name),
  };
}

/**
 * Describes both ends for a result: the host's and then the container's.
 *
 * @param netns CNI_NETNS
 */
export function describeVeth(
  { host, container }: Veth<Link>,
  netns: string,
): [Interface, Interface] {
  return [
    describeLink(host),
    { ...describeLink(container), sandbox: netns },
  ];
}

/** Describes a link of the host for a result. */
export function describeLink({ name, mac }: Link): Interface {
  return { name, mac: mac?.toString() };
}

/** What all our hosts' ends are called; the Go plugins' have eight digits. */
const HOST_PREFIX = "veth", OUR_HOST_END = /^veth[0-9a-f]{11}$/;

/** Names the host's end after the attachment, so that DEL finds it without the sandbox. */
export function hostIfNameOf(
  { network, containerId, ifName }: Attachment,
): string {
  return stableName(HOST_PREFIX, network, containerId, ifName);
}

/** Finds the attachment's host end; a link of its name may be another one's. */
export function findOwnHostEnd(
  host: Rtnl,
  attachment: Attachment,
): Link | undefined {
  const link = host.link.find(hostIfNameOf(attachment));
  return link === undefined || isOfAnother(link, attachment) ? undefined : link;
}

/** Says whether a link of the host is called as ours are. */
export function isOurHostEnd(name: string): boolean {
  return OUR_HOST_END.test(name);
}
