/**
 * Orphans of bandwidth, of this project and of the Go plugin: IFBs.
 *
 * @module
 */

import type {
  Orphan,
  OrphanSearch,
  PluginOrphans,
} from "../../metadata/orphans.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Parent, TrafficControl } from "../../ffi/rtnl/traffic_control.ts";
import { linkOrphan } from "../parts/owner/orphans.ts";

/** See {@linkcode PluginOrphans}. */
export const orphans: PluginOrphans = {
  finders: [findIfbs],
};

/** The names of IFBs. */
const IFB_NAME = /^bwp[0-9a-f]{12}$/;

function findIfbs(search: OrphanSearch): Orphan[] {
  using host = Rtnl.open(search.hostNetns);
  const links = host.link.list();
  const used = listRedirected(host, links);
  return links.filter(({ kind, name, index }) =>
    kind === "ifb" && IFB_NAME.test(name) && !used.has(index)
  ).flatMap((link) =>
    linkOrphan(search, link, {
      unknown: link.alias === undefined && !search.evidence.isBusy
        ? { why: "no link sends packets to it" }
        : undefined,
      isUsed: (rtnl) => listRedirected(rtnl, rtnl.link.list()).has(link.index),
    })
  );
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
