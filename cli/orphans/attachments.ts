/**
 * Attachments that caches still have. They are removed by DEL with the input of
 * ADD, so that every plugin releases what it holds, also in places that this
 * search does not know.
 *
 * @module
 */

import { AttachmentCache, NetworkRuntime } from "../../libcni/mod.ts";
import type { Orphan } from "../../cni/tools/leftovers.ts";
import { addressesOf, netnsOf } from "./evidence.ts";
import type { Scene } from "./search.ts";

/** Finds cached attachments. */
export function findAttachments(scene: Scene): Orphan[] {
  return scene.caches.flatMap((directory) => findCached(scene, directory));
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
        // It takes no locks: the remover holds them.
        await new NetworkRuntime({ ...scene, cacheDir }).delNetworkList(
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
