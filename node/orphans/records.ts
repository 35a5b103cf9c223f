/**
 * Locks of processes that were killed.
 *
 * @module
 */

import { listFiles } from "../../cni/files/listing.ts";
import { FileLock, readIfLocked } from "../../cni/files/lock.ts";
import { lockFolderOf } from "../../cni/libcni/mod.ts";
import type { Orphan } from "../../cni/tools/orphan.ts";
import type { Scene } from "./search.ts";

export function findLocks(scene: Scene): Orphan[] {
  return scene.caches.map(lockFolderOf)
    .flatMap((folder) => findIn(scene, folder));
}

function findIn({ graceMs }: Scene, folder: string): Orphan[] {
  const isOld = ({ name, since }: { name: string; since: Date }): boolean =>
    !name.startsWith(".") && Date.now() - since.getTime() >= graceMs;
  return listFiles(folder).filter(isOld)
    .filter(({ name }) => readIfLocked(`${folder}/${name}`) === "")
    .map(({ name }) => ({
      kind: "lock",
      where: `${folder}/${name}`,
      container: name,
      network: "",
      why: "no process holds it",
      async remove(): Promise<void> {
        await Promise.resolve();
        const path = `${folder}/${name}`;
        try {
          FileLock.tryAcquire(path, { create: false })?.remove();
        } catch (error) {
          if (!(error instanceof Deno.errors.NotFound)) throw error;
        }
      },
    }));
}
