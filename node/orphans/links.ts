/**
 * Links on the host: IFBs of bandwidth, ours and the Go plugin's, and veths with
 * both ends on the host. A veth with an end in another namespace ends with that
 * namespace, so it is never left over.
 *
 * @module
 */

import type { Link } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Parent, TrafficControl } from "../../ffi/rtnl/traffic_control.ts";
import { findLinkOwner } from "../../plugins/parts/attachment.ts";
import type { Orphan } from "./orphan.ts";
import type { Scene } from "./search.ts";

/** The names of bandwidth's IFBs. */
const IFB_NAME = /^bwp[0-9a-f]{12}$/;

/** Finds links. */
export function findLinks(scene: Scene): Orphan[] {
  using host = Rtnl.open(scene.hostNetns);
  const links = host.link.list();
  const used = listRedirected(host, links);
  return links.flatMap((link) => {
    const isIfb = link.kind === "ifb" && IFB_NAME.test(link.name) &&
      !used.has(link.index);
    if (!isIfb && !isHostPair(link, links)) return [];
    const owner = findLinkOwner(link);
    const why = owner === undefined
      ? isIfb && link.alias === undefined && !scene.evidence.isBusy
        ? "no link sends packets to it"
        : undefined
      : scene.evidence.findProof({
        container: owner.containerId,
        isCut: owner.isCut,
      });
    if (why === undefined) return [];
    const { name, index, alias } = link;
    return [{
      kind: "link",
      where: name,
      container: owner?.containerId ?? "",
      network: owner?.network ?? "",
      why,
      async remove(): Promise<void> {
        await Promise.resolve();
        using rtnl = Rtnl.open(scene.hostNetns);
        const found = rtnl.link.find(name);
        if (found?.index !== index || found.alias !== alias) return;
        if (isIfb && listRedirected(rtnl, rtnl.link.list()).has(index)) return;
        rtnl.link.ensureGone(index);
      },
    }];
  });
}

/** Reports whether a veth of ours has its peer on the host, too. */
function isHostPair(link: Link, links: readonly Link[]): boolean {
  return link.kind === "veth" && link.linkNetnsId === undefined &&
    links.some(({ index }) => index === link.linkIndex);
}

/** Lists the links to which filters of other links send packets. */
function listRedirected(host: Rtnl, links: readonly Link[]): Set<number> {
  const { filter } = new TrafficControl(host.socket);
  return new Set(
    links.flatMap(({ index }) =>
      filter.list(index, Parent.ClsactIngress)
        .flatMap(({ redirectTo }) => redirectTo ?? [])
    ),
  );
}
