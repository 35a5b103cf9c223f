/**
 * Orphans of flannel: configurations of its delegates.
 *
 * @module
 */

import { isContainerId } from "../../cni/call/args.ts";
import { listFiles } from "../../base/files/list_files.ts";
import type {
  Orphan,
  OrphanSearch,
  PluginOrphans,
} from "../../metadata/orphans.ts";
import { readJson, recordOrphan } from "../parts/owner/orphans.ts";

/** See {@linkcode PluginOrphans}. */
export const orphans: PluginOrphans = {
  state: { key: "dataDir", usual: "/var/lib/cni/flannel" },
  finders: [
    (search) =>
      search.places.flatMap((directory) => findSaved(search, directory)),
  ],
};

function findSaved(search: OrphanSearch, directory: string): Orphan[] {
  return listFiles(directory).flatMap(({ name, since }) => {
    const document = isContainerId(name)
      ? readJson(`${directory}/${name}`)
      : undefined;
    const reason = document &&
      search.evidence.findReason({ container: name, since });
    if (!reason) return [];
    const { name: network } = document;
    return [recordOrphan(`${directory}/${name}`, {
      container: name,
      network: typeof network === "string" ? network : "",
      ...reason,
    })];
  });
}
