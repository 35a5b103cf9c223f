/**
 * Orphans of host-device: records of devices that the kernel has returned to
 * the host, because their containers ended without a DEL.
 *
 * @module
 */

import { removeIfThere } from "../../base/files/io.ts";
import type {
  Orphan,
  OrphanSearch,
  PluginOrphans,
} from "../../metadata/orphans.ts";
import { heldNetnsTest, leadsToNetns } from "../../cni/call/netns_existence.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { listFiles } from "../../base/files/list_files.ts";
import { recordOrphan } from "../parts/owner/orphans.ts";
import { reclaim } from "./move.ts";
import { DATA_DIR, listRecords } from "./record.ts";

/** See {@linkcode PluginOrphans}. */
export const orphans: PluginOrphans = {
  state: { key: "dataDir", usual: DATA_DIR },
  finders: [
    (search) =>
      search.places.flatMap((directory) => findRecords(search, directory)),
  ],
};

function findRecords(search: OrphanSearch, directory: string): Orphan[] {
  const { evidence, hostNetns, log } = search;
  const times = new Map(
    listFiles(directory).map(({ name, since }) => [
      `${directory}/${name}`,
      since,
    ]),
  );
  const isHeld = heldNetnsTest();
  return listRecords(directory).flatMap(({ path, record }) => {
    const { containerId: container, network, netns } = record;
    const since = times.get(path);
    const isThere = leadsToNetns(netns.path, netns.file) || isHeld(netns.file);
    const reason = !isThere
      ? evidence.findReason({ container, since })
      : undefined;
    if (reason === undefined) return [];
    const orphan = recordOrphan(path, { container, network, ...reason });
    return [{
      ...orphan,
      async remove(): Promise<void> {
        // The caller awaits a promise, so a failure must be its rejection.
        await Promise.resolve();
        using host = Rtnl.open(hostNetns);
        reclaim({ host, log }, record);
        removeIfThere(path);
      },
    }];
  });
}
