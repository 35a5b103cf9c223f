/**
 * Files named after containers: tuning's backups, flannel's configurations, and
 * locks of processes that were killed.
 *
 * @module
 */

import { checkContainerId } from "../../cni/args.ts";
import { ifPossible, removeIfThere } from "../../cni/files/io.ts";
import { FileLock, readIfLocked } from "../../cni/files/lock.ts";
import { isObject, parseJson } from "../../cni/json.ts";
import { lockFolderOf } from "../../cni/libcni/mod.ts";
import type { Orphan } from "./orphan.ts";
import { listCacheFolders, listFiles, type Scene } from "./search.ts";

/** Finds records and locks. */
export function findRecords(scene: Scene): Orphan[] {
  const { tuning, flannel } = scene.folders;
  return [
    ...tuning.flatMap((folder) => findBackups(scene, folder)),
    ...flannel.flatMap((folder) => findSaved(scene, folder)),
    ...listCacheFolders(scene, scene.folders).map(lockFolderOf)
      .flatMap((folder) => findLocks(scene, folder)),
  ];
}

function findBackups(scene: Scene, folder: string): Orphan[] {
  return listFiles(folder).flatMap(({ name, since }) => {
    // Both names may contain underscores.
    const ids = name.endsWith(".json")
      ? [...name.matchAll(/_/g)].map(({ index }) => name.slice(0, index))
      : [];
    const proofs = ids.map((container) =>
      scene.evidence.findProof({ container, since })
    );
    const why = proofs.at(-1);
    if (why === undefined || proofs.includes(undefined)) return [];
    const document = readJson(`${folder}/${name}`);
    if (document === undefined) return [];
    const { network } = document;
    return [recordOf(`${folder}/${name}`, {
      container: ids.at(-1) ?? "",
      network: typeof network === "string" ? network : "",
      why,
    })];
  });
}

function findSaved(scene: Scene, folder: string): Orphan[] {
  return listFiles(folder).flatMap(({ name, since }) => {
    const document = isContainerId(name)
      ? readJson(`${folder}/${name}`)
      : undefined;
    const why = document &&
      scene.evidence.findProof({ container: name, since });
    if (!why) return [];
    const { name: network } = document;
    return [recordOf(`${folder}/${name}`, {
      container: name,
      network: typeof network === "string" ? network : "",
      why,
    })];
  });
}

function isContainerId(name: string): boolean {
  try {
    checkContainerId(name);
    return true;
  } catch {
    return false;
  }
}

function recordOf(
  where: string,
  about: Pick<Orphan, "container" | "network" | "why">,
): Orphan {
  return {
    kind: "record",
    where,
    ...about,
    // The caller waits for a promise, and gets a failure as its rejection.
    async remove(): Promise<void> {
      await Promise.resolve();
      removeIfThere(where);
    },
  };
}

/** Returns undefined for a file that is not an object: it is another program's. */
function readJson(path: string): Record<string, unknown> | undefined {
  const document = ifPossible(() => parseJson(Deno.readFileSync(path)));
  return isObject(document) ? { ...document } : undefined;
}

function findLocks({ graceMs }: Scene, folder: string): Orphan[] {
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
