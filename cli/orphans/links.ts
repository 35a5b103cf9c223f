/**
 * Veths with both ends on the host. A veth with an end in another namespace ends
 * with that namespace, so it is never left over.
 *
 * @module
 */

import type { Orphan } from "../../cni/tools/leftovers.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { linkOrphan } from "../../plugins/parts/owner/leftover_links.ts";
import type { Scene } from "./search.ts";

/** Finds such links. */
export function findPairs(scene: Scene): Orphan[] {
  using host = Rtnl.open(scene.hostNetns);
  const links = host.link.list();
  return links.filter((link) => isHostPair(link, links))
    .flatMap((link) => linkOrphan(scene, link));
}

/** Reports whether a veth of ours has its peer on the host, too. */
function isHostPair(link: Link, links: readonly Link[]): boolean {
  return link.kind === "veth" && link.linkNetnsId === undefined &&
    links.some(({ index }) => index === link.linkIndex);
}
