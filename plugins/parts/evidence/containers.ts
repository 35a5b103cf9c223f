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
 * Largest directory that is read, in bytes: a container can fill those in its own
 * mount namespace. In 4 MiB, file systems have the names of 50 000 containers.
 */
const MOST_BYTES = 4 * 1024 * 1024;

/**
 * Lists the IDs of containers that runtimes keep a directory for.
 *
 * @param roots Further root directories to search, without a slash at the end
 * @param onTooLarge Receives the path of each directory that is not read
 */
export function listContainerIds(
  roots: readonly string[] = [],
  onTooLarge: (path: string) => void = () => {},
): Set<string> {
  const list = (path: string): string[] => {
    const { size = 0 } = ifPossible(() => Deno.statSync(path)) ?? {};
    if (size <= MOST_BYTES) return listDirectories(path);
    onTooLarge(path);
    return [];
  };
  return new Set(
    ["", ...roots].flatMap((root) =>
      DIRECTORIES.flatMap((pattern) => listAt(root, pattern.slice(1), list))
    ),
  );
}

/** Lists the names in the directories that a pattern stands for. */
function listAt(
  root: string,
  pattern: string,
  list: (path: string) => string[],
): string[] {
  const directories = pattern.split("/").reduce(
    (paths, part) =>
      paths.flatMap((path) =>
        part === "*"
          ? list(path).map((name) => `${path}/${name}`)
          : `${path}/${part}`
      ),
    [root],
  );
  return directories.flatMap(list);
}

function listDirectories(path: string): string[] {
  const entries = ifPossible(() => [...Deno.readDirSync(path)]) ?? [];
  return entries.filter(({ isDirectory }) => isDirectory)
    .map(({ name }) => name);
}
