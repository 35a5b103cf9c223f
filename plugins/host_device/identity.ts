/**
 * Identifies the device of a record among links. A container with CAP_NET_ADMIN
 * chooses names, aliases, MAC addresses and indexes of its links, and creates its own
 * links. It cannot choose a link's kind, its device on a bus, its permanent MAC
 * address, or a lower link in a different namespace.
 *
 * @module
 */

import { type Link, LOOPBACK_INDEX } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { findNsid } from "../../ffi/rtnl/nsid.ts";
import { isGivenBack } from "./find_device.ts";
import type { DeviceRecord } from "./record.ts";

/**
 * Properties of a device that the kernel reports, and that a container cannot choose.
 */
type KernelIdentity = Pick<
  DeviceRecord,
  "kind" | "parent" | "permanentMac" | "linkIndex"
>;

/** The links of a container. */
export interface ContainerLinks {
  readonly links: readonly Link[];
  /** The nsid of the host's namespace in the container's namespace, if any. */
  readonly hostNsid: number | undefined;
}

/** Reads the links of a container. */
export function readContainerLinks(sandbox: Rtnl, host: Rtnl): ContainerLinks {
  const links = sandbox.link.list().filter(({ index }) =>
    index !== LOOPBACK_INDEX
  );
  return { links, hostNsid: findNsid(sandbox, host.netns) };
}

/** Returns the properties that identify a link. */
export function identityOf(link: Link): KernelIdentity {
  const { kind, parent, permanentMac, linkIndex } = link;
  return { kind, parent, permanentMac, linkIndex: linkIndex || undefined };
}

/** Reports whether a link has hardware: only drivers create links without a kind. */
export function isPhysical({ kind }: Pick<Link, "kind">): boolean {
  return kind === "";
}

/**
 * Lists the links of a container that can be the device of a record: the link with
 * its index or, if the container has changed the index, all links with the same
 * identity.
 */
export function listCandidates(
  { links, hostNsid }: ContainerLinks,
  record: DeviceRecord,
): Link[] {
  const alike = links.filter((link) =>
    isAlike(link, record) &&
    (!record.isLinkHere || link.linkNsid === hostNsid)
  );
  const exact = alike.filter(({ index }) => index === record.index);
  return exact.length > 0 ? exact : alike;
}

/**
 * Finds the device in its container. A link with the same identity might be the
 * device of a different attachment, such as a different macvlan on the same card,
 * while this device never left the host or has returned.
 *
 * @param listOthers Lists the records of the container's other attachments
 */
export function findInContainer(
  sandbox: Rtnl,
  host: Rtnl,
  record: DeviceRecord,
  listOthers: () => readonly DeviceRecord[],
): Link | undefined {
  const inside = readContainerLinks(sandbox, host);
  const possible = listCandidates(inside, record);
  const [first] = possible;
  if (first === undefined || first.index === record.index) return first;
  const isCertain = isPhysical(record) || record.linkIndex !== undefined;
  if (!isCertain || findOnHost(host.link.list(), record) !== undefined) {
    return undefined;
  }
  const others = listOthers().flatMap((other) => listCandidates(inside, other));
  return onlyOf(possible.filter((link) => !others.includes(link)));
}

/**
 * Finds the device among the links of the host, to which the kernel returned it when
 * its container ended, or an interrupted DEL returned it.
 */
export function findOnHost(
  links: readonly Link[],
  record: DeviceRecord,
): Link | undefined {
  const alike = links.filter((link) => isAlike(link, record));
  const exact = alike.find(({ index, name }) =>
    index === record.index || name === record.name
  );
  if (exact !== undefined || !isPhysical(record)) return exact;
  const only = onlyOf(alike);
  // A card can have several links, which differ only in their permanent MAC
  // addresses.
  const isCertain = only !== undefined && (record.permanentMac !== undefined ||
    isGivenBack(only, record.ifName));
  return isCertain ? only : undefined;
}

/** Reports whether a link has the identity of a device. */
export function isAlike(link: Link, record: DeviceRecord): boolean {
  const facts = identityOf(link);
  return facts.kind === record.kind &&
    facts.parent?.bus === record.parent?.bus &&
    facts.parent?.name === record.parent?.name &&
    facts.permanentMac?.hex === record.permanentMac?.hex &&
    facts.linkIndex === record.linkIndex;
}

function onlyOf(links: readonly Link[]): Link | undefined {
  return links.length === 1 ? links[0] : undefined;
}
