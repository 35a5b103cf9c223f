import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson } from "../../testing/ip_json.ts";
import { MasterScene, needsKind } from "../../tests/_harness/on_master.ts";
import { testOnMaster } from "../../tests/_harness/on_master_cases.ts";

testOnMaster("vlan", { changes: [], hasOwnMac: true, atLeast: 12 });

rootTest("vlan works without an IPAM plugin", needsKind("vlan"), async () => {
  using scene = new MasterScene("vlan", { ipam: undefined });
  const { state, hosts } = scene;
  await scene.succeed("STATUS");
  const { json: prevResult } = await scene.succeed("ADD");
  assertEquals([prevResult.interfaces.length, prevResult.ips ?? []], [1, []]);
  const [link] = ipJson(hosts.sandbox, "address", "show", "eth0");
  assertEquals(link.flags.includes("UP"), true);
  await scene.succeed("CHECK", { prevResult });
  await scene.succeed("DEL", { prevResult });
  assertEquals(scene.state, state);
});
