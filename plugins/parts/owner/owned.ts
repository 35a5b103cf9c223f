/**
 * What attachments own in tables of nftables. The comments of elements and rules
 * begin with the attachment's `instance`, and that with its network's hash.
 *
 * @module
 */

import type { AttachmentId } from "../../../cni/config/types.ts";
import type { Bytes } from "../../../net/bytes.ts";
import { type MasqueradeNames, namesOf } from "../firewall/masquerade/names.ts";

/** Selects elements and rules by their comments. */
export interface Owned {
  /** The beginning of the comments of all meant ones, and maybe of others. */
  readonly tag: Bytes;
  readonly isMeant: (one: { readonly comment: string }) => boolean;
}

/** Selects what one attachment owns. */
export function ownedBy(
  { instance }: Pick<MasqueradeNames, "instance">,
): Owned {
  return startsWith(instance);
}

/** Selects what stale attachments to a network own. */
export async function staleOf(
  network: string,
  valid: readonly AttachmentId[],
): Promise<Owned> {
  const none = { network, containerId: "", ifName: "" };
  const [{ networkHash }, ...names] = await Promise.all([
    namesOf(none),
    ...valid.map((attachment) => namesOf({ network, ...attachment })),
  ]);
  return staleAmong(networkHash, names);
}

/** Does the same as {@linkcode staleOf}, by names. */
export function staleAmong(
  networkHash: string,
  valid: readonly Pick<MasqueradeNames, "instance">[],
): Owned {
  const ofNetwork = startsWith(`${networkHash}-`);
  const spared = new Set(valid.map(({ instance }) => instance));
  const { length } = `${networkHash}-${networkHash}`;
  return {
    tag: ofNetwork.tag,
    isMeant: (one) =>
      ofNetwork.isMeant(one) && !spared.has(one.comment.slice(0, length)),
  };
}

function startsWith(text: string): Owned {
  return {
    tag: new TextEncoder().encode(text),
    isMeant: ({ comment }) => comment.startsWith(text),
  };
}
