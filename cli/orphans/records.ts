/**
 * Locks of processes that were killed.
 *
 * @module
 */

import { listFiles } from "../../base/files/listing.ts";
import { FileLock, readIfLocked } from "../../base/files/lock.ts";
import { lockDirectoryOf } from "../../libcni/mod.ts";
import type { Orphan } from "../../cni/tools/leftovers.ts";
import type { Scene } from "./search.ts";

export function findLocks(scene: Scene): Orphan[] {
  return scene.caches.map(lockDirectoryOf)
    .flatMap((directory) => findIn(scene, directory));
}

function findIn({ graceMs }: Scene, directory: string): Orphan[] {
  const isOld = ({ name, since }: { name: string; since: Date }): boolean =>
    !name.startsWith(".") && Date.now() - since.getTime() >= graceMs;
  return listFiles(directory).filter(isOld)
    .filter(({ name }) => readIfLocked(`${directory}/${name}`) === "")
    .map(({ name }) => ({
      kind: "lock",
      where: `${directory}/${name}`,
      container: name,
      network: "",
      why: "no process holds it",
      async remove(): Promise<void> {
        await Promise.resolve();
        const path = `${directory}/${name}`;
        try {
          FileLock.tryAcquire(path, { create: false })?.remove();
        } catch (error) {
          if (!(error instanceof Deno.errors.NotFound)) throw error;
        }
      },
    }));
}
