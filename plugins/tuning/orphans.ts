/**
 * Orphans of tuning: backups.
 *
 * @module
 */

import { listFiles } from "../../base/files/list_files.ts";
import type {
  Orphan,
  OrphanSearch,
  PluginOrphans,
} from "../../metadata/orphans.ts";
import { readJson, recordOrphan } from "../parts/owner/orphans.ts";

/** See {@linkcode PluginOrphans}. */
export const orphans: PluginOrphans = {
  state: { key: "dataDir", usual: "/run/cni/tuning" },
  finders: [
    (search) =>
      search.places.flatMap((directory) => findBackups(search, directory)),
  ],
};

function findBackups(search: OrphanSearch, directory: string): Orphan[] {
  return listFiles(directory).flatMap(({ name, since }) => {
    // Both names can contain underscores.
    const ids = name.endsWith(".json")
      ? [...name.matchAll(/_/g)].map(({ index }) => name.slice(0, index))
      : [];
    const proofs = ids.map((container) =>
      search.evidence.findReason({ container, since })
    );
    const reason = proofs.at(-1);
    if (reason === undefined || proofs.includes(undefined)) return [];
    const backup = readJson(`${directory}/${name}`);
    if (backup === undefined) return [];
    const { network } = backup;
    return [recordOrphan(`${directory}/${name}`, {
      container: ids.at(-1) ?? "",
      network: typeof network === "string" ? network : "",
      ...reason,
    })];
  });
}
