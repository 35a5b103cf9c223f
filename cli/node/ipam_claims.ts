/**
 * The IPAMClaims of attachments.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import {
  type AttachedClaim,
  findAttachedClaim,
} from "../../ipam/whereabouts/inspect.ts";
import { parseCachedConfig } from "../../libcni/conf.ts";
import type { CachedAttachment, PluginConf } from "../../libcni/mod.ts";
import { unfoldChains } from "./chain_form.ts";

export type { AttachedClaim };

/** Finds the claim of an attachment; undefined if it has none. */
export function findCachedClaim(
  attachment: CachedAttachment,
): AttachedClaim | undefined {
  for (const { document } of listCachedPlugins(attachment.config)) {
    const claim = findAttachedClaim(document, attachment);
    if (claim !== undefined) return claim;
  }
  return undefined;
}

/** Lists the plugins of a cached configuration; none if it cannot be read. */
export function listCachedPlugins(config: Uint8Array): readonly PluginConf[] {
  return ifPossible(() => unfoldChains(parseCachedConfig(config).plugins)) ??
    [];
}
