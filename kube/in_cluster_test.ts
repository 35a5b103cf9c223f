import { assertEquals, assertThrows } from "@std/assert";
import type { Environment } from "../base/process/environment.ts";
import { CniError } from "../base/error.ts";
import { deadline } from "../base/deadline.ts";
import { KubeScene } from "./testing/kube_scene.ts";
import { PluginDirectory } from "../tests/_harness/plugin_directory.ts";
import { readAnswer } from "./answer.ts";
import { Connection } from "./connection.ts";
import { findServer, readInCluster } from "./in_cluster.ts";
import { podPath } from "./pod_annotations.ts";
import type { Pod } from "./types.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

const HOST = "KUBERNETES_SERVICE_HOST", PORT = "KUBERNETES_SERVICE_PORT";

const CERTIFICATE =
  "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----";

Deno.test("readInCluster() finds the server in the environment", async (t) => {
  using directory = new PluginDirectory();
  directory.addFile("token", "t1\n");
  directory.addFile("ca.crt", CERTIFICATE);
  const rows: readonly [string, string, string | undefined][] = [
    ["10.96.0.1", "443", "https://10.96.0.1:443"],
    ["fd00::1", "6443", "https://[fd00::1]:6443"],
    ["[fd00::1]", "6443", "https://[fd00::1]:6443"],
    ["kubernetes.default", "443", "https://kubernetes.default:443"],
    ["10.96.0.1", "", undefined],
    ["", "443", undefined],
  ];
  await eachRow(t, rows, ([host, port, server]) => {
    const env = {
      KUBERNETES_SERVICE_HOST: host,
      KUBERNETES_SERVICE_PORT: port,
    };
    const access = readInCluster(env, directory.path);
    assertEquals(access?.server, server);
    if (access === undefined) return;
    assertEquals(access.caCerts, [CERTIFICATE]);
    assertEquals(access.credentials.known, { authorization: "Bearer t1" });
  }, ([host, port]) => `${host} ${port}`);
  await t.step("no server without both variables", () => {
    assertEquals(readInCluster({}, directory.path), undefined);
  });
});

Deno.test("readInCluster() fails in a pod without a service account", async (t) => {
  using directory = new PluginDirectory();
  const env = { KUBERNETES_SERVICE_HOST: "h", KUBERNETES_SERVICE_PORT: "1" };
  for (const file of ["ca.crt", "token"]) {
    await t.step(file, () => {
      const error = assertThrows(
        () => readInCluster(env, directory.path),
        CniError,
      );
      assertEquals([error.code, error.message], [
        7,
        `Cannot use the pod's service account: ${file}: "${directory.path}/${file}" cannot be read`,
      ]);
    });
    directory.addFile("ca.crt", CERTIFICATE);
  }
});

Deno.test("readInCluster() returns a working access", async () => {
  await using scene = await KubeScene.start();
  const { api, directory } = scene;
  api.writeServiceAccount(directory.path);
  const access = readInCluster(api.inClusterEnvironment(), directory.path);
  if (access === undefined) throw new Error("we are in a pod");
  using connection = await Connection.open(access, { env: {} });
  const path = podPath({ namespace: "test", name: "p1" });
  const pod = await readAnswer<Pod>(
    await connection.send({ path }, deadline(5000)),
  );
  assertEquals(pod.metadata?.uid, "u1");
});

Deno.test("findServer() builds a URL from any kind of host", async (t) => {
  const rows: [what: string, host: string, server: string][] = [
    ["IPv4", "10.96.0.1", "https://10.96.0.1:6443"],
    ["IPv6", "fd00::1", "https://[fd00::1]:6443"],
    ["IPv6 in brackets", "[fd00::1]", "https://[fd00::1]:6443"],
    ["a name", "kubernetes.default", "https://kubernetes.default:6443"],
  ];
  await eachRow(t, rows, ([, host, server]) => {
    assertEquals(findServer({ [HOST]: host, [PORT]: "6443" }), server);
  });
  await t.step("with a different protocol", () => {
    const env = { [HOST]: "fd00::1", [PORT]: "80" };
    assertEquals(findServer(env, "http"), "http://[fd00::1]:80");
  });
});

testRows<[string, Environment]>("findServer() needs host and port", [
  ["nothing", {}],
  ["no port", { [HOST]: "10.96.0.1" }],
  ["no host", { [PORT]: "443" }],
  ["an empty host", { [HOST]: "", [PORT]: "443" }],
  ["an empty port", { [HOST]: "10.96.0.1", [PORT]: "" }],
], ([, env]) => assertEquals(findServer(env), undefined));
