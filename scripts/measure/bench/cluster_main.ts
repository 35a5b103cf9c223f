/**
 * The API server of the tests, with one pod, in the network namespace that it is
 * started in, until it is killed.
 *
 *     deno run -A scripts/measure/bench/cluster_main.ts DIRECTORY
 *
 * @module
 */

import { KubeApi } from "../../../kube/testing/kube_api.ts";
import { type ClusterAccess, READY } from "./daemon.ts";
import { POD } from "./route.ts";

const SPEC = { nodeName: "bench", containers: [{ name: "c", image: "none" }] };

if (import.meta.main) {
  const [directory = "."] = Deno.args;
  const access = await start(directory);
  const written = `${directory}/${READY}.new`;
  Deno.writeTextFileSync(written, JSON.stringify(access));
  Deno.renameSync(written, `${directory}/${READY}`);
}

async function start(directory: string): Promise<ClusterAccess> {
  const api = await KubeApi.start();
  api.putPod({ metadata: { ...POD }, spec: SPEC });
  const account = `${directory}/account`;
  await Deno.mkdir(account);
  api.writeServiceAccount(account);
  return {
    kubeconfig: api.writeKubeconfig(directory),
    account,
    environment: api.inClusterEnvironment(),
  };
}
