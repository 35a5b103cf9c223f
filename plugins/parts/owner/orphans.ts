/**
 * Orphans of containers: links on the host, and files named after containers.
 *
 * @module
 */

import { ifPossible, removeIfThere } from "../../../base/files/io.ts";
import { isObject, parseJson } from "../../../base/json/json.ts";
import type {
  Orphan,
  OrphanSearch,
  Reason,
} from "../../../metadata/orphans.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { findLinkOwner } from "./attachment.ts";

/** Additional evidence about a link. */
export interface LinkEvidence {
  /**
   * The reason why it is orphaned although it names no owner; undefined if it is not.
   */
  readonly unknown?: Reason | undefined;
  /** Reports whether it is in use. */
  readonly isUsed?: (host: Rtnl) => boolean;
}

/** Describes a link if its container was deleted; empty otherwise. */
export function linkOrphan(
  search: Pick<OrphanSearch, "hostNetns" | "evidence">,
  link: Link,
  { unknown, isUsed }: LinkEvidence = {},
): Orphan[] {
  const owner = findLinkOwner(link);
  const reason = owner === undefined ? unknown : search.evidence.findReason({
    container: owner.containerId,
    isTruncated: owner.isTruncated,
  });
  if (reason === undefined) return [];
  const { name, index, alias } = link;
  return [{
    kind: "link",
    where: name,
    container: owner?.containerId ?? "",
    network: owner?.network ?? "",
    ...reason,
    async remove(): Promise<void> {
      await Promise.resolve();
      using rtnl = Rtnl.open(search.hostNetns);
      const found = rtnl.link.find(name);
      if (found?.index !== index || found.alias !== alias) return;
      if (isUsed?.(rtnl)) return;
      rtnl.link.ensureGone(index);
    },
  }];
}

/** Describes an orphaned file. */
export function recordOrphan(
  where: string,
  owner: Pick<Orphan, "container" | "network" | keyof Reason>,
): Orphan {
  return {
    kind: "record",
    where,
    ...owner,
    // The caller awaits a promise, so a failure must be its rejection.
    async remove(): Promise<void> {
      await Promise.resolve();
      removeIfThere(where);
    },
  };
}

/**
 * Returns undefined for a file that is not a JSON object, because it belongs to a
 * different program.
 */
export function readJson(path: string): Record<string, unknown> | undefined {
  const document = ifPossible(() => parseJson(Deno.readFileSync(path)));
  return isObject(document) ? { ...document } : undefined;
}
