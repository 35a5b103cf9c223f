import { assertEquals } from "@std/assert";
import { OFFLINE_FLAGS } from "../scripts/net.ts";
import { KubeScene } from "../tests/_harness/kube_scene.ts";
import { TunnelProxy } from "../tests/_harness/tunnel_proxy.ts";

/** Reads the pod in a process with proxy variables in its environment. */
async function readPodAside(
  kubeconfig: string,
  env: Readonly<Record<string, string>>,
): Promise<string> {
  const url = new URL("./client.ts", import.meta.url).href;
  const script = `
    import { openKubeClient } from "${url}";
    const env = Deno.env.toObject();
    const client = await openKubeClient({ kubeconfig: "${kubeconfig}", env });
    const { metadata } = await client.getPod("test", "p1");
    console.log(metadata.uid);`;
  const module = `data:application/typescript,${encodeURIComponent(script)}`;
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", ...OFFLINE_FLAGS, module],
    cwd: new URL("..", import.meta.url).pathname,
    env: { ...env },
    stdin: "null",
  }).output();
  return new TextDecoder().decode(stdout.length > 0 ? stdout : stderr).trim();
}

Deno.test("loadTransport() uses a proxy of the environment only to get away from here", async (t) => {
  const rows = [
    ["https", "127.0.0.1", "HTTPS_PROXY", 0],
    ["https", "localhost", "https_proxy", 0],
    ["https", "localhost", "ALL_PROXY", 0],
    ["http", "127.0.0.1", "HTTP_PROXY", 0],
    ["https", "kube.localhost", "HTTPS_PROXY", 1],
  ] as const;
  for (const [transport, host, variable, tunnels] of rows) {
    await t.step(`${variable}, for ${host}`, async () => {
      const serverNames = [host, "127.0.0.1"];
      await using scene = await KubeScene.start({
        transport,
        ...host === "kube.localhost" ? { serverNames } : {},
      });
      using proxy = new TunnelProxy("http");
      const { api, folder } = scene;
      const server = api.url.replace("127.0.0.1", host);
      const kubeconfig = api.writeKubeconfig(folder.path, "token", { server });
      const proxyUrl = `http://127.0.0.1:${proxy.port}`;
      const env = { [variable]: proxyUrl, NO_PROXY: "", no_proxy: "" };
      assertEquals(await readPodAside(kubeconfig, env), "u1");
      assertEquals(proxy.tunnels.length, tunnels);
    });
  }
});
