/**
 * Attachments that caches and multus' scratch files still have. They are removed
 * by DEL with the input of ADD, so that every plugin releases what it holds,
 * also in places that this search does not know.
 *
 * @module
 */

import { AttachmentCache } from "../../cni/libcni/mod.ts";
import { interfaceNameOf } from "../../plugins/multus/delegate_conf.ts";
import { networkOf } from "../../plugins/multus/memory/cached_attachments.ts";
import { ScratchCache } from "../../plugins/multus/memory/scratch_cache.ts";
import { addressesOf, netnsOf } from "./evidence.ts";
import type { Orphan } from "./orphan.ts";
import {
  createRuntime,
  listCacheFolders,
  listFiles,
  type Scene,
} from "./search.ts";

/** The kubelet's name for the interface of a pod's first network. */
const FIRST_IFNAME = "eth0";

/** Finds cached attachments and scratch files. */
export function findAttachments(scene: Scene): Orphan[] {
  return [
    ...listCacheFolders(scene, scene.folders)
      .flatMap((folder) => findCached(scene, folder)),
    ...scene.folders.multus.flatMap((folder) => findScratch(scene, folder)),
  ];
}

function findCached(scene: Scene, cacheDir: string): Orphan[] {
  return new AttachmentCache(cacheDir).listAttachments().flatMap((cached) => {
    const { network, containerId, ifName, path, since } = cached;
    const netns = netnsOf(cached);
    const why = scene.evidence.findProof({
      container: containerId,
      addresses: addressesOf(cached),
      netns,
      since,
    });
    if (why === undefined) return [];
    return [{
      kind: "attachment",
      where: path,
      container: containerId,
      network,
      why,
      async remove(): Promise<void> {
        const isThere = new AttachmentCache(cacheDir)
          .listAttachments(containerId).some((one) => one.path === path);
        if (!isThere) return;
        const bare = { name: network, cniVersion: "", plugins: [] };
        await createRuntime(scene, cacheDir).delNetworkList(
          { ...bare, bytes: cached.config },
          { containerId, netns: "", ifName },
          {
            useCachedConfig: true,
            continueOnDelErrors: true,
            ...scene.signal && { signal: scene.signal },
          },
        );
      },
    }];
  });
}

function findScratch(scene: Scene, cniDir: string): Orphan[] {
  const scratch = new ScratchCache(cniDir, scene.log);
  const times = new Map(
    listFiles(cniDir).map(({ name, since }) => [name, since]),
  );
  return scratch.list().flatMap((container) => {
    const since = times.get(container);
    const why = scene.evidence.findProof({ container, since });
    if (why === undefined) return [];
    const { owner } = scratch.readWhatIsLeft(container);
    return [{
      kind: "attachment",
      where: `${cniDir}/${container}`,
      container,
      network: owner,
      why,
      async remove(): Promise<void> {
        const { delegates } = scratch.readWhatIsLeft(container);
        const runtime = createRuntime(scene, cniDir);
        for (const [index, delegate] of [...delegates.entries()].reverse()) {
          const ifName = interfaceNameOf(delegates, index, FIRST_IFNAME);
          await runtime.delNetworkList(
            networkOf(delegate),
            { containerId: container, netns: "", ifName },
            {
              useCachedConfig: true,
              continueOnDelErrors: true,
              ...scene.signal && { signal: scene.signal },
            },
          );
        }
        scratch.remove(container);
      },
    }];
  });
}
