/**
 * The three names of an attachment, which identify its links, rules and files.
 *
 * @module
 */

import type { Call } from "../../../cni/plugin.ts";
import type { Attachment, AttachmentId } from "../../../cni/config/types.ts";
import { shortenWithHash } from "./stable_name.ts";

/** Returns the attachment of a call. */
export function attachmentOf(
  { network, args }: Pick<Call, "network" | "args">,
): Attachment {
  const { containerId, ifName } = args;
  return { network, containerId, ifName };
}

/**
 * Prefix of all aliases, which show GC and administrators the attachment that owns a
 * link.
 */
const ALIAS_PREFIX = "cni/";
/**
 * The longest alias that the kernel accepts, without its trailing NUL.
 *
 * Source: include/uapi/linux/if.h `IFALIASZ`, net/core/rtnetlink.c
 * `ifla_policy`.
 */
const MAX_ALIAS_BYTES = 254;
/** Longer names are shortened, to leave room for a hash of the rest. */
const MAX_NETWORK_BYTES = 232;

/** Returns the alias of an attachment's link. */
export function aliasOf(
  { network, containerId, ifName }: Attachment,
): string {
  const prefix = aliasPrefixOf(network);
  const { length } = new TextEncoder().encode(prefix);
  // No network, container or interface name contains a slash. UTF-8 cannot
  // encode a lone surrogate, so this matches what the kernel returns.
  const rest = `${containerId}/${ifName}`.toWellFormed();
  return prefix + shortenWithHash(rest, MAX_ALIAS_BYTES - length);
}

/** Returns the prefix of the aliases of all attachments to a network. */
export function aliasPrefixOf(network: string): string {
  return `${ALIAS_PREFIX}${shortenWithHash(network, MAX_NETWORK_BYTES)}/`;
}

/**
 * Reports whether a link with an attachment's name belongs to a different attachment,
 * because names are hashes, which can collide. A link without an alias remains from a
 * killed ADD.
 */
export function isOfAnother(
  { alias }: { readonly alias: string | undefined },
  attachment: Attachment,
): boolean {
  return alias?.startsWith(ALIAS_PREFIX) === true &&
    alias !== aliasOf(attachment);
}

/**
 * Builds a test for links of stale attachments to the network, with their aliases.
 */
export function staleLinkTest(
  network: string,
  valid: readonly AttachmentId[],
): (link: { readonly alias: string | undefined }) => boolean {
  const spared = new Set(
    valid.map((attachment) => aliasOf({ ...attachment, network })),
  );
  const prefix = aliasPrefixOf(network);
  return ({ alias }) =>
    alias?.startsWith(prefix) === true && !spared.has(alias);
}

/** The owner of a link, if its alias names it. */
export interface LinkOwner extends Attachment {
  /** Whether the container's ID might be cut off, and the interface unknown. */
  readonly isTruncated: boolean;
}

/** Finds the attachment that owns a link, from its alias. */
export function findLinkOwner(
  { alias }: { readonly alias: string | undefined },
): LinkOwner | undefined {
  const [prefix, network, containerId, ...rest] = alias?.split("/") ?? [];
  const isOurs = `${prefix}/` === ALIAS_PREFIX && network && containerId;
  if (!isOurs) return undefined;
  const [ifName = ""] = rest;
  // A hash that replaces the end begins with a tilde, which no ID contains.
  const [start = ""] = containerId.split("~");
  const isTruncated = start !== containerId || ifName.includes("~");
  return { network, containerId: start, ifName, isTruncated };
}
