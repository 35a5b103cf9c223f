import { assertEquals, assertRejects, assertStrictEquals } from "@std/assert";
import { CniError } from "../../../cni/error.ts";
import { KubeScene } from "../../../tests/_harness/kube_scene.ts";
import { PluginFolder } from "../../../tests/_harness/plugin_folder.ts";
import { leaveSocket } from "../../../tests/_harness/unix_server.ts";
import { openProcessCluster } from "./cluster.ts";
import { SOCKET_NAME } from "./daemon_protocol.ts";

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
  for (const [name, env, kubeconfig, expected] of rows) {
    await t.step(name, () => {
      assertEquals(
        openProcessCluster({ command: "ADD", env, kubeconfig }).isConfigured,
        expected,
      );
    });
  }
});

Deno.test("openProcessCluster().client() fails without an API", async () => {
  await using cluster = openProcessCluster({ command: "ADD", env: {} });
  await assertRejects(() => cluster.client(), CniError, "neither a kubeconfig");
});

Deno.test("openProcessCluster().client() always returns the same client", async () => {
  await using scene = await KubeScene.start();
  const kubeconfig = scene.api.writeKubeconfig(scene.folder.path);
  await using cluster = openProcessCluster({
    command: "ADD",
    env: {},
    kubeconfig,
  });
  assertStrictEquals(await cluster.client(), await cluster.client());
});

Deno.test("openProcessCluster().client() asks the daemon if its socket exists", async (t) => {
  await using scene = await KubeScene.start();
  const kubeconfig = scene.api.writeKubeconfig(scene.folder.path);
  await t.step("it answers", async () => {
    using folder = new PluginFolder();
    const seen: (string | null)[] = [];
    await using _daemon = Deno.serve({
      path: `${folder.path}/${SOCKET_NAME}`,
      onListen(): void {},
    }, ({ headers }) => {
      seen.push(headers.get("multus-pod-uid"));
      const origin = { "multus-origin": "cache" };
      return new Response('{"metadata":{"name":"p9"}}', { headers: origin });
    });
    await using cluster = openProcessCluster({
      command: "ADD",
      env: {},
      kubeconfig,
      daemonSocketDir: folder.path,
      podUid: "u9",
    });
    const client = await cluster.client();
    const { metadata } = await client.getPod("test", "p9");
    assertEquals([metadata?.name, seen], ["p9", ["u9"]]);
    assertEquals(scene.api.requests, []);
  });
  const rows: [string, (path: string) => void][] = [
    ["nobody listens", leaveSocket],
    ["it is a file", (path) => Deno.writeTextFileSync(path, "")],
    ["there is nothing", () => {}],
  ];
  for (const [name, leave] of rows) {
    await t.step(name, async () => {
      using folder = new PluginFolder();
      leave(`${folder.path}/${SOCKET_NAME}`);
      const daemonSocketDir = folder.path;
      await using cluster = openProcessCluster({
        command: "ADD",
        env: {},
        kubeconfig,
        daemonSocketDir,
      });
      const client = await cluster.client();
      const { metadata } = await client.getPod("test", "p1");
      assertEquals(metadata?.uid, "u1");
    });
  }
});
