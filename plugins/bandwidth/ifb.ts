/**
 * The intermediate functional block (IFB) of an attachment: a link with a
 * queue, through which the container's outgoing traffic passes.
 *
 * @module
 */

import { sha512 } from "../../base/process/sha512.ts";
import type { Attachment, AttachmentId } from "../../cni/config/types.ts";
import { isErrno } from "../../ffi/errno.ts";
import type { Link, NewIfb } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { TrafficControl } from "../../ffi/rtnl/traffic_control.ts";
import { aliasOf, staleLinkTest } from "../parts/owner/attachment.ts";
import { stableName } from "../parts/owner/stable_name.ts";
import { isRedirected } from "./redirect.ts";

const PREFIX = "bwp", HASH_DIGITS = 12;

/** Identification of an attachment's IFB. */
export interface IfbIdentity {
  /**
   * The Go plugin's name, shared by all attachments of the container to the
   * network.
   */
  readonly sharedName: string;
  /** The name if a different attachment uses the shared name. */
  readonly ownName: string;
  /** Identifies the owner; the Go plugin's IFBs have no alias. */
  readonly alias: string;
}

/**
 * Computes the identification of an attachment's IFB.
 *
 * Source: containernetworking/plugins pkg/utils/utils.go
 * `MustFormatHashWithPrefix`.
 */
export async function identifyIfb(
  attachment: Attachment,
): Promise<IfbIdentity> {
  const { network, containerId, ifName } = attachment;
  const hash = await sha512(network + containerId);
  return {
    sharedName: PREFIX + hash.slice(0, HASH_DIGITS),
    ownName: stableName(PREFIX, network, containerId, ifName),
    alias: aliasOf(attachment),
  };
}

/** The location of an IFB, and its owner. */
export interface IfbContext {
  /** The namespace of the link and of the IFB: the host's, unless `isInside`. */
  readonly host: Rtnl;
  /** Owner of the IFB. */
  readonly identity: IfbIdentity;
  /** The host's end of the veth pair, or the container's interface, if it exists. */
  readonly end: Link | undefined;
  /** Whether both are in the container. */
  readonly isInside: boolean;
  /** Whether the sandbox exists, and with it the veth pairs of its interfaces. */
  readonly hasSandbox: boolean;
}

/**
 * Creates the attachment's IFB, up and without a queue. Replaces the IFB of an
 * interrupted ADD.
 *
 * @throws {Error} If the kernel refuses
 */
export function createIfb(
  place: IfbContext,
  settings: Omit<NewIfb, "name" | "alias">,
): Link {
  const { sharedName, ownName, alias } = place.identity;
  const { link } = place.host;
  try {
    const deleteOrphan = (name: string): boolean => {
      const found = link.find(name);
      return found !== undefined && isOrphan(place, found) &&
        link.ensureGone(found.index);
    };
    const add = (name: string): Link =>
      link.addIfb({ ...settings, name, alias });
    deleteOrphan(ownName);
    const addShared = (): Link | undefined =>
      unlessTaken(() => add(sharedName));
    return addShared() ??
      (deleteOrphan(sharedName) ? addShared() : undefined) ?? add(ownName);
  } catch (error) {
    throw new Error(`Cannot create "${sharedName}"`, { cause: error });
  }
}

function unlessTaken(add: () => Link): Link | undefined {
  try {
    return add();
  } catch (error) {
    if (isErrno(error, "EEXIST")) return undefined;
    throw error;
  }
}

/**
 * Reports whether a link remains from an interrupted ADD. An IFB without an alias
 * might belong to a different attachment that is just creating it.
 */
function isOrphan({ host, identity, end }: IfbContext, link: Link): boolean {
  if (link.kind !== "ifb" || end === undefined) return false;
  if (link.alias !== undefined) return link.alias === identity.alias;
  return isRedirected(new TrafficControl(host.socket), end.index, link.index);
}

/** Finds the attachment's IFB, even if the Go plugin created it. */
export function findIfb(place: IfbContext): Link | undefined {
  return listIfbs(place)[0];
}

/**
 * Deletes the attachment's IFB, even if the Go plugin created it.
 *
 * @throws {SyscallError} If the kernel refuses
 */
export function deleteIfb(place: IfbContext): void {
  for (const { index } of listIfbs(place)) place.host.link.ensureGone(index);
}

/** Lists the attachment's IFBs; a killed ADD can leave two. */
export function listIfbs(place: IfbContext): Link[] {
  const { ownName, sharedName } = place.identity;
  return [ownName, sharedName].flatMap((name) => {
    const link = place.host.link.find(name);
    return link !== undefined && isOwn(place, link) ? [link] : [];
  });
}

/**
 * Reports whether a link with one of the names is this attachment's IFB. The Go
 * plugin's IFBs have no alias: such an IFB belongs to a different attachment of the
 * container if the veth pair of that attachment is redirected to it.
 */
function isOwn(
  { host, identity, end, hasSandbox }: IfbContext,
  link: Link,
): boolean {
  if (link.kind !== "ifb") return false;
  if (link.alias !== undefined) return link.alias === identity.alias;
  return !hasSandbox || !isUsedByOthers(host, link, end);
}

function isUsedByOthers(
  host: Rtnl,
  ifb: Link,
  end: Link | undefined,
): boolean {
  const traffic = new TrafficControl(host.socket);
  return host.link.list({ kind: "veth" }).some(({ index }) =>
    index !== end?.index && isRedirected(traffic, index, ifb.index)
  );
}

/** Lists the IFBs of stale attachments to a network. */
export function listStaleIfbs(
  host: Rtnl,
  network: string,
  valid: readonly AttachmentId[],
): Link[] {
  const isStale = staleLinkTest(network, valid);
  // The next GC finds IFBs that this list omits.
  return host.link.listSome({ kind: "ifb" }).items
    .filter((link) => link.name.startsWith(PREFIX) && isStale(link));
}
