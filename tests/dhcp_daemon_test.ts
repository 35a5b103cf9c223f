/**
 * The plugin dhcp and its daemon, with DHCP servers on a throw-away host.
 */

import { assertEquals } from "@std/assert";
import { rootTest } from "../testing/capabilities.ts";
import { DhcpScene, needsDnsmasq } from "./_harness/dhcp.ts";

rootTest("dhcp leases an address until DEL", needsDnsmasq, async () => {
  await using scene = await DhcpScene.start();
  const server = await scene.startDnsmasq("--dhcp-option=3,10.9.0.1");
  const result = await scene.succeed("ADD");
  assertEquals(scene.addresses(), [result.ips[0].address]);
  await scene.succeed("CHECK", { prevResult: result });
  await scene.succeed("DEL");
  await server.says("DHCPRELEASE");
  assertEquals(scene.leases, []);
  await scene.succeed("DEL");
});
