/**
 * Objects that attachments own in tables of nftables. The comments of elements and
 * rules begin with the attachment's `instance`, which begins with its network's hash.
 *
 * @module
 */

import type { AttachmentId } from "../../../cni/config/types.ts";
import type { Bytes } from "../../../net/bytes.ts";
import { type MasqueradeNames, namesOf } from "../firewall/masquerade/names.ts";

/** Selects elements and rules by their comments. */
export interface Owned {
  /**
   * A prefix of the comments of all selected objects, and possibly of other objects.
   */
  readonly tag: Bytes;
  readonly isMeant: (one: { readonly comment: string }) => boolean;
}

/** Selects the objects of an attachment. */
export function ownedBy(
  { instance }: Pick<MasqueradeNames, "instance">,
): Owned {
  return startsWith(instance);
}

/** Selects the objects of stale attachments to a network. */
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

/** Selects the same as {@linkcode staleOf}, by names. */
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
