import { assertEquals, assertStringIncludes } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { IP4, IP6, SbrScene } from "./testing.ts";
import { ETH0, IPV6, NET1 } from "../../tests/_harness/two_networks.ts";

rootTest("sbr.add() sets source hints of its own interface only", async () => {
  // Both interfaces have the same subnets.
  using scene = new SbrScene([
    "address add 192.168.1.2/24 dev eth0",
    "address add 2001:db8:1::2/64 dev eth0 nodad",
    ...NET1,
    ...IPV6.filter((line) => line.includes("209")),
    "address add 192.168.1.210/24 dev net1",
  ], {
    ips: [IP4, { address: "192.168.1.210/24" }, IP6],
    addSourceHints: true,
  });
  const before = scene.state;
  const others = (): string[] =>
    scene.networks.routes().filter((line) => line.includes(" eth0 "));
  const ofEth0 = others();
  await scene.succeed("ADD");
  assertEquals(others(), ofEth0);
  assertEquals(scene.table("main"), [
    "192.168.1.0/24 dev net1 proto kernel scope link src 192.168.1.209",
    "2001:db8:1::/64 dev net1 src 2001:db8:1::209 metric 1024",
    "fe80::/64 dev net1 proto kernel metric 256",
  ]);
  await scene.succeed("CHECK");
  await scene.succeed("DEL");
  assertEquals(scene.state, before);
});

rootTest("sbr.add() skips a hint that the kernel refuses", async () => {
  using scene = new SbrScene([
    ...ETH0,
    // Fails as long as duplicate address detection is in progress.
    "address add 2001:db8:1::209/64 dev net1",
  ], { ips: [IP6], addSourceHints: true });
  const before = scene.state;
  const added = await scene.run("ADD");
  assertEquals(added.exitCode, 0, added.stdout);
  assertStringIncludes(
    added.stderr,
    "Cannot add route 2001:db8:1::/64 of table 254",
  );
  assertEquals(scene.table("main"), [
    "2001:db8:1::/64 dev net1 proto kernel metric 256",
  ]);
  await scene.succeed("CHECK");
  await scene.succeed("DEL");
  assertEquals(scene.state, before);
});
