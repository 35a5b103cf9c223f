/**
 * What names an attachment: the links, rules and files that belong to it are
 * found again by these three.
 *
 * @module
 */

import type { Call } from "../../cni/plugin.ts";
import type { ValidAttachment } from "../../cni/types.ts";
import { shorten } from "./stable_name.ts";

/** One interface of one container on one network. */
export interface Attachment extends ValidAttachment {
  /** Name of the network. */
  readonly network: string;
}

/** Names the attachment that a call is about. */
export function attachmentOf(
  { network, args }: Pick<Call, "network" | "args">,
): Attachment {
  const { containerId, ifName } = args;
  return { network, containerId, ifName };
}

/** Prefix of every alias. The alias tells GC and people whose link it is. */
const ALIAS_PREFIX = "cni/";
/**
 * The longest alias that the kernel takes with a NUL at its end. Source:
 * include/uapi/linux/if.h `IFALIASZ`, net/core/rtnetlink.c `ifla_policy`.
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
  // Neither network nor container nor interface may have a slash in its name.
  // As the kernel tells it: half a surrogate pair has no bytes of its own.
  const rest = `${containerId}/${ifName}`.toWellFormed();
  return prefix + shorten(rest, MAX_ALIAS_BYTES - length);
}

/** Returns what the aliases of all attachments to a network begin with. */
export function aliasPrefixOf(network: string): string {
  return `${ALIAS_PREFIX}${shorten(network, MAX_NETWORK_BYTES)}/`;
}

/**
 * Says whether a link with an attachment's name belongs to another attachment:
 * names are hashes, and two may be equal. A link without an alias was left by an
 * ADD that was killed.
 */
export function isOfAnother(
  { alias }: { readonly alias: string | undefined },
  attachment: Attachment,
): boolean {
  return alias?.startsWith(ALIAS_PREFIX) === true &&
    alias !== aliasOf(attachment);
}
