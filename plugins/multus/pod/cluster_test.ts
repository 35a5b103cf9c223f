import { assertEquals, assertRejects, assertStrictEquals } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { KubeScene } from "../../../kube/testing/kube_scene.ts";
import { openProcessCluster } from "./cluster.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

Deno.test("openProcessCluster().isConfigured reports whether an API is configured", async (t) => {
  const host = { KUBERNETES_SERVICE_HOST: "10.0.0.1" };
  const port = { KUBERNETES_SERVICE_PORT: "443" };
  const rows: [string, Record<string, string>, string | undefined, boolean][] =
    [
      ["nothing", {}, undefined, false],
      ["a kubeconfig", {}, "/k", true],
      ["a service account", { ...host, ...port }, undefined, true],
      ["half of one", host, undefined, false],
    ];
  await eachRow(t, rows, ([, env, kubeconfig, expected]) => {
    assertEquals(
      openProcessCluster({ command: "ADD", env, kubeconfig }).isConfigured,
      expected,
    );
  });
});

Deno.test("openProcessCluster().client() fails without an API", async () => {
  await using cluster = openProcessCluster({ command: "ADD", env: {} });
  await assertRejects(() => cluster.client(), CniError, "neither a kubeconfig");
});

Deno.test("openProcessCluster().client() always returns the same client", async () => {
  await using scene = await KubeScene.start();
  const kubeconfig = scene.api.writeKubeconfig(scene.directory.path);
  await using cluster = openProcessCluster({
    command: "ADD",
    env: {},
    kubeconfig,
  });
  assertStrictEquals(await cluster.client(), await cluster.client());
});
