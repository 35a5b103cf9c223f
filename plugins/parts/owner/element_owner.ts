/**
 * The owner of an element of a set: how to identify it, and whether it is
 * alive.
 *
 * An element's comment is for people and for DEL and GC. Its label is for the calls
 * of other containers, which must know whether the owner of a port or an address is
 * alive: whether the path of the container's namespace still leads to the same inode.
 *
 * @module
 */

import { findFileId } from "../../../base/files/same_file.ts";
import { leadsToNetns } from "../../../cni/call/netns_existence.ts";
import { sha512 } from "../../../base/process/sha512.ts";
import type { ElementTexts } from "../../../ffi/nftables/comment.ts";
import {
  COMMENT_MAX_BYTES,
  USER_DATA_MAX_BYTES,
} from "../../../ffi/nftables/comment.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { NeighborRequests } from "../../../ffi/rtnl/neighbor.ts";
import type { Ip } from "../../../net/ip.ts";
import {
  cutBytes,
  HASH_DIGITS,
  INSTANCE_DIGITS,
  namesOf,
} from "../firewall/masquerade/names.ts";
import type { Attachment } from "../../../cni/config/types.ts";

/** Types, lengths and the comment's NUL. */
const USER_DATA_OVERHEAD = 5;
const MAX_LABEL_BYTES = USER_DATA_MAX_BYTES - USER_DATA_OVERHEAD -
  INSTANCE_DIGITS;

/** The texts that identify an attachment in the table. */
export interface ElementOwner extends ElementTexts {
  /** Hashes of network and attachment; the comment begins with it. */
  readonly instance: string;
}

/** An element whose label may be missing. */
interface Labelled {
  readonly label?: string | undefined;
}

/**
 * Returns the texts of an attachment's elements.
 *
 * @param netns The container's namespace; "" if it is not needed
 */
export async function ownerOf(
  attachment: Attachment,
  netns = "",
): Promise<ElementOwner> {
  const [{ instance, comment }, container] = await Promise.all([
    namesOf(attachment),
    sha512(attachment.containerId),
  ]);
  const hash = container.slice(0, HASH_DIGITS);
  const whole = `${hash} ${describeNamespace(netns)}`;
  const { length } = new TextEncoder().encode(whole);
  // A path that does not fit cannot be looked at: the owner counts as dead.
  const label = length <= MAX_LABEL_BYTES ? whole : hash;
  const room = USER_DATA_MAX_BYTES - USER_DATA_OVERHEAD -
    Math.min(length, MAX_LABEL_BYTES);
  return {
    instance,
    comment: cutBytes(comment, Math.min(room, COMMENT_MAX_BYTES - 1)),
    label,
  };
}

/** Reports whether two elements are of the same container. */
export function isSameContainer(
  left: Labelled,
  right: Labelled,
): boolean {
  const [one, other] = [left, right].map(({ label = "" }) =>
    label.slice(0, HASH_DIGITS)
  );
  return one !== "" && one === other;
}

/** Reports whether the namespace of an element's owner still exists. */
export function isAlive({ label = "" }: Labelled): boolean {
  return isNamespaceThere(label.slice(HASH_DIGITS + 1));
}

/** Returns a text about a namespace for {@linkcode isNamespaceThere}. */
export function describeNamespace(netns: string): string {
  return `${findFileId(netns)} ${netns}`;
}

/** Reports whether a namespace is still the one that a text describes. */
export function isNamespaceThere(text: string): boolean {
  const [id, ...path] = text.split(" ");
  return leadsToNetns(path.join(" "), id);
}

/** Reports whether the owners of two elements are in one namespace. */
export function isInSameNamespace(left: Labelled, right: Labelled): boolean {
  const [one, other] = [left, right].map(({ label = "" }) =>
    label.slice(HASH_DIGITS)
  );
  return one !== "" && one === other;
}

/**
 * Reports whether the host has the MAC of a container's address. This
 * identifies an owner without a label: nft's output has none, so they are lost
 * if the table is restored from it.
 */
export function isNeighbor(hostNetns: string, address: Ip): boolean {
  using host = Rtnl.open(hostNetns);
  return new NeighborRequests(host.socket).list({ family: address.family })
    .some(({ ip, mac }) => mac !== undefined && ip.equals(address));
}

/** Describes an element's owner to people, as far as its comment is complete. */
export function describeOwner(
  { comment }: Pick<ElementTexts, "comment">,
): string {
  return comment.slice(INSTANCE_DIGITS).replace(/^, /, "");
}
