/**
 * Orphans of multus: scratch files of pods. They are removed with DEL of their
 * networks, with the input of ADD.
 *
 * @module
 */

import { listFiles } from "../../base/files/list_files.ts";
import { MULTUS_CACHE_DIR } from "../../cni/config/types.ts";
import type {
  Orphan,
  OrphanSearch,
  PluginOrphans,
} from "../../metadata/orphans.ts";
import { NetworkRuntime } from "../../libcni/mod.ts";
import { interfaceNameOf, networkOf } from "./model/attachment.ts";
import { ScratchCache } from "./records/scratch_cache.ts";

/** See {@linkcode PluginOrphans}. */
export const orphans: PluginOrphans = {
  state: { key: "cniDir", usual: MULTUS_CACHE_DIR, isCache: true },
  finders: [
    (search) =>
      search.places.flatMap((directory) => findScratch(search, directory)),
  ],
};

/** The kubelet's name for the interface of a pod's first network. */
const FIRST_IFNAME = "eth0";

function findScratch(search: OrphanSearch, cniDir: string): Orphan[] {
  const scratch = new ScratchCache(cniDir, search.log);
  const times = new Map(
    listFiles(cniDir).map(({ name, since }) => [name, since]),
  );
  return scratch.list().flatMap((container) => {
    const since = times.get(container);
    const reason = search.evidence.findReason({ container, since });
    if (reason === undefined) return [];
    const { owner } = scratch.readUsable(container);
    return [{
      kind: "attachment",
      where: `${cniDir}/${container}`,
      container,
      network: owner,
      ...reason,
      async remove(): Promise<void> {
        const { delegates } = scratch.readUsable(container);
        // The runtime takes no locks, because the remover holds them.
        const runtime = new NetworkRuntime({
          ...search,
          cacheDir: cniDir,
          recordsSteps: true,
        });
        for (const [index, delegate] of [...delegates.entries()].reverse()) {
          const ifName = interfaceNameOf(delegates, index, FIRST_IFNAME);
          await runtime.delNetworkList(
            networkOf(delegate),
            { containerId: container, netns: "", ifName },
            {
              useCachedConfig: true,
              continueOnDelErrors: true,
              ...search.signal && { signal: search.signal },
            },
          );
        }
        scratch.remove(container);
      },
    }];
  });
}
