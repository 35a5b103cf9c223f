/**
 * Leases of host-local, ours and the Go plugin's, and of the DHCP daemon.
 *
 * @module
 */

import { ifPossible } from "../../cni/files/io.ts";
import { LeaseFolder as DhcpFolder } from "../../ipam/dhcp/lease_folder.ts";
import { LeaseStore } from "../../ipam/host_local/store.ts";
import { Ip, unlessNoAddress } from "../../net/ip.ts";
import type { FoundLease } from "./evidence.ts";
import type { Orphan } from "./orphan.ts";
import { listFiles, type Scene } from "./search.ts";

/** Finds leases of both kinds. */
export async function findLeases(scene: Scene): Promise<Orphan[]> {
  const orphans: Orphan[] = [];
  for (const dataDir of scene.folders.leases) {
    const entries = ifPossible(() => [...Deno.readDirSync(dataDir)]) ?? [];
    for (const { isDirectory, name } of entries) {
      if (isDirectory) orphans.push(...await findIn(scene, dataDir, name));
    }
  }
  return [...orphans, ...scene.folders.dhcpSockets.flatMap(findDhcp(scene))];
}

/** Lists the leases of host-local that tell their container, without a lock. */
export function listFoundLeases(folders: readonly string[]): FoundLease[] {
  return folders.flatMap((dataDir) =>
    (ifPossible(() => [...Deno.readDirSync(dataDir)]) ?? [])
      .filter(({ isDirectory }) => isDirectory)
      .map(({ name }) => `${dataDir}/${name}`)
  ).flatMap((folder) =>
    listFiles(folder).flatMap(({ name, since }) => {
      const ip = unlessNoAddress(() => Ip.parse(name));
      const content = ip &&
        ifPossible(() => Deno.readTextFileSync(`${folder}/${name}`));
      const container = content?.split("\r\n")[0]?.trim() ?? "";
      return container !== "" && ip
        ? [{ container, address: String(ip), since }]
        : [];
    })
  );
}

async function findIn(
  { evidence, log }: Scene,
  dataDir: string,
  network: string,
): Promise<Orphan[]> {
  // Without a lock file, the folder is not host-local's.
  const isOurs = ifPossible(() => Deno.statSync(`${dataDir}/${network}/lock`));
  if (!isOurs?.isFile) return [];
  using store = await LeaseStore.find(dataDir, network, { log });
  return (store?.leasesOfOthers([]) ?? []).flatMap(({ ip, path, content }) => {
    const [container = ""] = content.split("\r\n");
    const since = ifPossible(() => Deno.statSync(path).mtime) ?? undefined;
    const why = since &&
      evidence.findProof({ container, addresses: [ip], since });
    if (why === undefined) return [];
    return [{
      kind: "lease",
      where: path,
      container,
      network,
      why,
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

/** The daemon ends leases itself while it runs; the others end when it starts. */
function findDhcp({ evidence }: Scene): (socket: string) => Orphan[] {
  return (socket) => {
    const folder = new DhcpFolder(socket);
    return folder.list().flatMap((lease) => {
      const { containerId, ifName, network, netns, isReleased } = lease;
      const why = isReleased ? undefined : evidence.findProof({
        container: containerId,
        netns,
        addresses: [Ip.parse(lease.address)],
      });
      if (why === undefined) return [];
      return [{
        kind: "lease",
        where: `${folder.path}: ${lease.address} of ${ifName}`,
        container: containerId,
        network,
        why,
        remove: () =>
          folder.markReleased((one) =>
            one.containerId === containerId && one.ifName === ifName &&
            one.network === network
          ),
      }];
    });
  };
}
