import { assertEquals } from "@std/assert";
import { WhereaboutsScene } from "./testing/scene.ts";
import { ResidentClients } from "./daemon.ts";

Deno.test("ResidentClients keeps one connection for the calls of a kubeconfig", async () => {
  await using scene = await WhereaboutsScene.start({});
  using clients = new ResidentClients({ info(): void {}, warn(): void {} });
  scene.useClients(clients.open);
  const before = scene.api.connections;
  const ipam = { range: "10.0.0.0/24" };
  assertEquals(await scene.add(ipam, { pod: "a" }), ["10.0.0.1/24"]);
  assertEquals(await scene.add(ipam, { pod: "b" }), ["10.0.0.2/24"]);
  await scene.del(ipam, { pod: "a" });
  assertEquals(scene.api.connections - before, 1);
});
