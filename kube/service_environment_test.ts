import { assertEquals } from "@std/assert";
import type { Environment } from "../cni/args.ts";
import { findServer } from "./service_environment.ts";

const HOST = "KUBERNETES_SERVICE_HOST", PORT = "KUBERNETES_SERVICE_PORT";

Deno.test("findServer() forms a URL of any kind of host", async (t) => {
  const rows: [what: string, host: string, server: string][] = [
    ["IPv4", "10.96.0.1", "https://10.96.0.1:6443"],
    ["IPv6", "fd00::1", "https://[fd00::1]:6443"],
    ["IPv6 in brackets", "[fd00::1]", "https://[fd00::1]:6443"],
    ["a name", "kubernetes.default", "https://kubernetes.default:6443"],
  ];
  for (const [what, host, server] of rows) {
    await t.step(what, () => {
      assertEquals(findServer({ [HOST]: host, [PORT]: "6443" }), server);
    });
  }
  await t.step("by another protocol", () => {
    const env = { [HOST]: "fd00::1", [PORT]: "80" };
    assertEquals(findServer(env, "http"), "http://[fd00::1]:80");
  });
});

Deno.test("findServer() needs host and port", async (t) => {
  const rows: [what: string, env: Environment][] = [
    ["nothing", {}],
    ["no port", { [HOST]: "10.96.0.1" }],
    ["no host", { [PORT]: "443" }],
    ["an empty host", { [HOST]: "", [PORT]: "443" }],
    ["an empty port", { [HOST]: "10.96.0.1", [PORT]: "" }],
  ];
  for (const [what, env] of rows) {
    await t.step(what, () => assertEquals(findServer(env), undefined));
  }
});
