/**
 * The containers that runtimes on this node have, by the directories that they keep
 * for each: also of one that is stopped or checkpointed, and has no process.
 *
 * @module
 */

import { ifPossible } from "../../../base/files/io.ts";

/**
 * Directories with one entry for each container, named by its ID. `*` stands for a
 * namespace or an address of the runtime.
 *
 * Source: containerd core/runtime/v2 `TaskManager`, internal/cri/server
 * `getSandboxRootDir`; moby daemon/container `Root`; containers/storage `containers`;
 * runc and crun `--root`.
 */
const DIRECTORIES = [
  "/run/containerd/io.containerd.runtime.v2.task/*",
  "/run/containerd/io.containerd.grpc.v1.cri/sandboxes",
  "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes",
  "/run/k3s/containerd/io.containerd.runtime.v2.task/*",
  "/run/k3s/containerd/io.containerd.grpc.v1.cri/sandboxes",
  "/var/lib/rancher/k3s/agent/containerd/io.containerd.grpc.v1.cri/sandboxes",
  "/var/lib/docker/containers",
  "/var/lib/containers/storage/overlay-containers",
  "/var/lib/nerdctl/*/containers/*",
  "/run/runc",
  "/run/crun",
];

/**
 * Lists the IDs of containers that runtimes keep a directory for.
 *
 * @param roots Further root directories to search, without a slash at the end
 */
export function listContainerIds(roots: readonly string[] = []): Set<string> {
  return new Set(
    ["", ...roots].flatMap((root) =>
      DIRECTORIES.flatMap((pattern) => listAt(root, pattern.slice(1)))
    ),
  );
}

/** Lists the names in the directories that a pattern stands for. */
function listAt(root: string, pattern: string): string[] {
  const directories = pattern.split("/").reduce(
    (paths, part) =>
      paths.flatMap((path) =>
        part === "*"
          ? listDirectories(path).map((name) => `${path}/${name}`)
          : `${path}/${part}`
      ),
    [root],
  );
  return directories.flatMap(listDirectories);
}

function listDirectories(path: string): string[] {
  const entries = ifPossible(() => [...Deno.readDirSync(path)]) ?? [];
  return entries.filter(({ isDirectory }) => isDirectory)
    .map(({ name }) => name);
}
