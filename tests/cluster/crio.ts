/**
 * CRI-O as the runtime of a node. `CNI_CRIO` names its executable, which is
 * searched in PATH otherwise; `pinns` is beside it.
 *
 * @module
 */

import { dirname, join } from "@std/path/posix";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  isExecutable,
  type Needs,
} from "../../testing/capabilities.ts";
import { until } from "../_harness/eventually.ts";
import { needsCluster } from "./cluster_test_case.ts";
import type { Node } from "./node.ts";
import { containerd, PAUSE_IMAGE, type Runtime } from "./runtime.ts";

const CRIO = Deno.env.get("CNI_CRIO") || findInPath("crio") || "";
const SOCKET = "/run/crio/crio.sock";

/**
 * A machine may let nobody have a score below its own, and have no control groups
 * for huge pages; containerd has keys for that.
 */
const RUNC = "/etc/crio/runc";
const RUNC_SCRIPT = `#!/bin/sh
for word; do
  if [ "$last" = --bundle ]; then
    text=$(tr -d '\\n\\t' < "$word/config.json" |
      sed -e 's/"oomScoreAdj": *-[0-9]*/"oomScoreAdj":0/' \\
        -e 's/"hugepageLimits": *\\[[^]]*\\]/"hugepageLimits":[]/')
    printf '%s' "$text" > "$word/config.json"
  fi
  last=$word
done
exec runc "$@"
`;

/** Skips tests where CRI-O cannot run. */
export const needsCrio: Needs = allOf(
  needsCluster,
  ignoreUnless(isExecutable(CRIO), "needs CNI_CRIO, the executable of CRI-O"),
  ignoreUnless(
    ["conmon", "skopeo"].every(hasCommand),
    "needs conmon and skopeo",
  ),
);

/** CRI-O as it is by default, except for what this machine lacks. */
export const crio: Runtime = {
  program: "crio",
  hasGc: true,
  socket: SOCKET,
  async start(node: Node): Promise<void> {
    const accept = [{ type: "insecureAcceptAnything" }];
    node.write("/etc/containers/policy.json", { default: accept });
    // Names of images without a registry, as containerd reads them.
    node.write(
      "/etc/containers/registries.conf",
      'unqualified-search-registries = ["docker.io"]\n',
    );
    node.write(
      "/etc/crio/crio.conf",
      `[crio]
storage_driver = "overlay"
[crio.api]
listen = "${SOCKET}"
[crio.runtime]
default_runtime = "runc"
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
pinns_path = "${join(dirname(CRIO), "pinns")}"
seccomp_profile = "unconfined"
apparmor_profile = "unconfined"
[crio.runtime.runtimes.runc]
runtime_path = "${RUNC}"
[crio.image]
pause_image = "${PAUSE_IMAGE}"
[crio.network]
network_dir = "/etc/cni/net.d/"
plugin_dirs = ["/opt/cni/bin"]
[crio.nri]
enable_nri = false
`,
    );
    node.write(RUNC, RUNC_SCRIPT);
    await node.get(`chmod +x ${RUNC}`);
    node.start("crio", CRIO, "--config=/etc/crio/crio.conf");
    await until(
      "CRI-O answers",
      async () =>
        (await node.run(`${CRIO} status --socket ${SOCKET} info`)).code === 0,
      () => node.logOf("crio"),
    );
  },
  async load(node: Node, tar: string): Promise<void> {
    const tags = JSON.parse(await node.get(`tar -xOf '${tar}' manifest.json`));
    const [name] = tags[0].RepoTags;
    const to =
      `containers-storage:[overlay@/var/lib/containers/storage+/run/containers/storage]`;
    await node.get(
      `skopeo --insecure-policy copy docker-archive:'${tar}' '${to}${name}'`,
    );
  },
};

/**
 * What privileged containers need, such as those of thick multus. CRI-O gives them
 * every capability of the kernel, containerd those that it has itself.
 *
 * Source: capabilities(7), `/proc/sys/kernel/cap_last_cap`.
 */
export function needsPrivileged({ program }: Runtime): Needs {
  const [, bounding = "0"] = /^CapBnd:\t(\w+)$/m
    .exec(Deno.readTextFileSync("/proc/self/status")) ?? [];
  const last = BigInt(Deno.readTextFileSync("/proc/sys/kernel/cap_last_cap"));
  const hasAll = BigInt(`0x${bounding}`) === (2n << last) - 1n;
  return ignoreUnless(
    program !== crio.program || hasAll,
    "needs all capabilities of the kernel",
  );
}

/** A runtime, and whether calls of plugins go through the node daemon. */
export interface Case {
  readonly runtime: Runtime;
  readonly needs: Needs;
  readonly withDaemon: boolean;
}

/** Both runtimes, without the node daemon and with it. */
export const CASES: readonly Case[] = [
  { runtime: containerd, needs: needsCluster },
  { runtime: crio, needs: needsCrio },
].flatMap((row) => [
  { ...row, withDaemon: false },
  { ...row, withDaemon: true },
]);

function findInPath(name: string): string | undefined {
  return (Deno.env.get("PATH") ?? "").split(":")
    .map((directory) => join(directory, name)).find(isExecutable);
}
