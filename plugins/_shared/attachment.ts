/**
 * What names an attachment: the links, rules and files that belong to it are
 * found again by these three.
 *
 * @module
 */

import type { Call } from "../../cni/plugin.ts";
import type { ValidAttachment } from "../../cni/types.ts";

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
