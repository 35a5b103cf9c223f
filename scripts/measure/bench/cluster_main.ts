/**
 * An API server with one pod, in the network namespace that it is started in,
 * until it is killed: a real one if `CNI_KUBE_APISERVER_DIR` names the directory of
 * `kube-apiserver` and `etcd`, else the one of the tests.
 *
 *     deno run -A scripts/measure/bench/cluster_main.ts DIRECTORY
 *
 * @module
 */

import { KubeApi } from "../../../kube/testing/kube_api.ts";
import {
  createAll,
  KubeApiServer,
  needsApiServer,
} from "../../../tests/_harness/kube_apiserver.ts";
import { ROOT } from "../../compile/project.ts";
import { type ClusterAccess, READY } from "./daemon.ts";
import { POD } from "./route.ts";

const SPEC = { nodeName: "bench", containers: [{ name: "c", image: "none" }] };

if (import.meta.main) {
  const [directory = "."] = Deno.args;
  const start = needsApiServer.ignore ? startFixture : startReal;
  const access = await start(directory);
  const written = `${directory}/${READY}.new`;
  Deno.writeTextFileSync(written, JSON.stringify(access));
  Deno.renameSync(written, `${directory}/${READY}`);
}

async function startFixture(directory: string): Promise<ClusterAccess> {
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

/** Multus has the rights of deploy/multus. The pod's UID is the server's choice. */
async function startReal(directory: string): Promise<ClusterAccess> {
  const state = `${directory}/api`;
  await Deno.mkdir(state);
  const server = await KubeApiServer.start(state);
  for (const file of ["crd.yaml", "rbac.yaml"]) {
    const manifest = await Deno.readTextFile(`${ROOT}deploy/multus/${file}`);
    await createAll(server, manifest);
  }
  const { namespace, name } = POD;
  await server.create(`/api/v1/namespaces/${namespace}/pods`, {
    metadata: { name },
    spec: SPEC,
  });
  const account = `${directory}/account`;
  await Deno.mkdir(account);
  const token = await server.tokenOf("kube-system", "multus");
  const files = { token, "ca.crt": server.caPem, namespace: "kube-system" };
  for (const [file, text] of Object.entries(files)) {
    await Deno.writeTextFile(`${account}/${file}`, text);
  }
  const { hostname, port } = new URL(server.url);
  return {
    kubeconfig: await server.kubeconfigOf("kube-system", "multus"),
    account,
    environment: {
      KUBERNETES_SERVICE_HOST: hostname,
      KUBERNETES_SERVICE_PORT: port,
    },
  };
}
