/**
 * The containers of this node's runtimes, from the directories that runtimes keep for
 * each container. This includes stopped or checkpointed containers, which have no
 * process.
 *
 * @module
 */

import { ifPossible } from "../../../base/files/io.ts";

/**
 * Directories with an entry for each container, named by its ID. `*` matches a
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
 * The largest directory that is read, in bytes, because a container can fill
 * directories in its own mount namespace. In 4 MiB, file systems store the names of
 * 50 000 containers.
 */
const MOST_BYTES = 4 * 1024 * 1024;

/**
 * Lists the IDs of containers for which runtimes keep a directory.
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

/** Lists the names in the directories that match a pattern. */
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
