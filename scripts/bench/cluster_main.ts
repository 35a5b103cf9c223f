/**
 * An API server with one pod, in the network namespace that it is started in,
 * until it is killed.
 *
 *     deno run -A scripts/bench/cluster_main.ts FOLDER
 *
 * @module
 */

import { KubeApi } from "../../tests/_harness/kube_api.ts";
import { type ClusterAccess, READY } from "./cluster.ts";
import { POD } from "./route.ts";

if (import.meta.main) {
  const [folder = "."] = Deno.args;
  const api = await KubeApi.start();
  api.putPod({
    metadata: { ...POD },
    spec: { nodeName: "bench", containers: [] },
  });
  const account = `${folder}/account`;
  Deno.mkdirSync(account);
  api.writeServiceAccount(account);
  const access: ClusterAccess = {
    kubeconfig: api.writeKubeconfig(folder),
    account,
    environment: api.inClusterEnvironment(),
  };
  const written = `${folder}/${READY}.new`;
  Deno.writeTextFileSync(written, JSON.stringify(access));
  Deno.renameSync(written, `${folder}/${READY}`);
}
