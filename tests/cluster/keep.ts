/**
 * Starts a cluster and leaves it up: what `deno task test:cluster --keep` does.
 *
 *     --nodes N    how many nodes; 1 by default
 *
 * @module
 */

import { DIRECTORY } from "../_harness/kube_apiserver.ts";
import { Cluster, ptpNetwork } from "./cluster.ts";
import { needsCluster } from "./cluster_test_case.ts";

/** Writes a script that runs its arguments somewhere; returns its path. */
async function writeScript(path: string, enter: string): Promise<string> {
  const script = `#!/bin/sh
export PATH="${DIRECTORY}:$PATH"
[ $# -gt 0 ] || set -- "\${SHELL:-/bin/sh}"
${enter} "$@"
`;
  await Deno.writeTextFile(path, script, { mode: 0o755 });
  return path;
}

async function keep(count: number): Promise<void> {
  await using cluster = await Cluster.start({
    nodes: count,
    network: ptpNetwork,
  });
  const { hosts: { directory, host }, api, nodes } = cluster;
  const kubectl = await writeScript(
    `${directory}/enter`,
    `export KUBECONFIG=${api.programs.kubeconfig}
exec nsenter --net=${host.path}`,
  );
  console.log(`The cluster is up, until Ctrl-C.

${kubectl} kubectl get nodes    (helm and others likewise)`);
  for (const { name, init } of nodes) {
    const namespaces = `--target ${init} --mount --uts --ipc --net --pid`;
    const path = await writeScript(
      `${directory}/${name}/enter`,
      `exec nsenter ${namespaces}`,
    );
    console.log(`${path} COMMAND    runs it on ${name}`);
  }
  console.log(`
Logs are in ${directory}/api and ${directory}/node*/log. Nodes have the images
cni-plugins:0.1.0, multus:0.1.0, registry.k8s.io/pause:3.10 and
localhost/busybox:1; nothing can be pulled.`);
  await new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      Deno.addSignalListener(signal, () => resolve(undefined));
    }
    // A timer keeps this process alive.
    setInterval(() => {}, 60_000);
  });
}

if (needsCluster.ignore) {
  console.error(`No cluster:${needsCluster.suffix}`);
  Deno.exit(1);
}
const at = Deno.args.indexOf("--nodes");
await keep(at < 0 ? 1 : Number(Deno.args[at + 1]));
Deno.exit(0);
