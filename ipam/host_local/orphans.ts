/**
 * Orphans of host-local, of this project and of the Go plugin: leases.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { listFiles } from "../../base/files/list_files.ts";
import type {
  FoundLease,
  Orphan,
  OrphanSearch,
  PluginOrphans,
} from "../../metadata/orphans.ts";
import { Ip, unlessNoAddress } from "../../net/ip.ts";
import { containerOf, parsePersistent } from "./lease.ts";
import { LeaseStore } from "./store.ts";

/** See {@linkcode PluginOrphans}. */
export const orphans: PluginOrphans = {
  state: { key: "dataDir", usual: "/var/lib/cni/networks" },
  finders: [findLeases],
  listLeases,
};

async function findLeases(search: OrphanSearch): Promise<Orphan[]> {
  const orphans: Orphan[] = [];
  for (const dataDir of search.places) {
    const entries = ifPossible(() => [...Deno.readDirSync(dataDir)]) ?? [];
    for (const { isDirectory, name } of entries) {
      if (isDirectory) orphans.push(...await findIn(search, dataDir, name));
    }
  }
  return orphans;
}

/** Lists the leases that name their container, without a lock. */
export function listLeases(directories: readonly string[]): FoundLease[] {
  return directories.flatMap((dataDir) =>
    (ifPossible(() => [...Deno.readDirSync(dataDir)]) ?? [])
      .filter(({ isDirectory }) => isDirectory)
      .map(({ name }) => `${dataDir}/${name}`)
  ).flatMap((directory) =>
    listFiles(directory).flatMap(({ name, since }) => {
      const ip = unlessNoAddress(() => Ip.parse(name));
      const content = ip &&
        ifPossible(() => Deno.readTextFileSync(`${directory}/${name}`));
      // A persistent address is of a name.
      if (parsePersistent(content?.trim() ?? "") !== undefined) return [];
      const container = containerOf(content ?? "");
      return container !== "" && ip
        ? [{ container, address: String(ip), since }]
        : [];
    })
  );
}

async function findIn(
  { evidence, log }: OrphanSearch,
  dataDir: string,
  network: string,
): Promise<Orphan[]> {
  // Without a lock file, the directory is not host-local's.
  const isOurs = ifPossible(() => Deno.statSync(`${dataDir}/${network}/lock`));
  if (!isOurs?.isFile) return [];
  using store = await LeaseStore.find(dataDir, network, { log });
  return (store?.leasesOfOthers([]) ?? []).flatMap(({ ip, path, content }) => {
    const container = containerOf(content);
    const since = ifPossible(() => Deno.statSync(path).mtime) ?? undefined;
    const reason = since &&
      evidence.findReason({ container, addresses: [ip], since });
    if (reason === undefined) return [];
    return [{
      kind: "lease",
      where: path,
      container,
      network,
      ...reason,
      async remove(): Promise<void> {
        using held = await LeaseStore.find(dataDir, network, { log });
        const same = (held?.leasesOfOthers([]) ?? []).filter((lease) =>
          lease.ip.equals(ip) && lease.content === content
        );
        held?.release(same);
      },
    }];
  });
}
