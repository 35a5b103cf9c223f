import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { bridgeConfig } from "./testing/bridge_network.ts";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { canPing, runIn } from "../../testing/ip_json.ts";
import {
  MasqueradeScene,
  testMasquerade,
} from "../../tests/_harness/masquerade_scene.ts";
import { needsInetRules, needsRuleTools } from "../../tests/_harness/rules.ts";
import { eachRow } from "../../tests/_harness/table.ts";

testMasquerade("bridge", bridgeConfig);

rootTest(
  "bridge.add() does not masquerade traffic inside the network",
  allOf(needsRuleTools, needsInetRules),
  async (t) => {
    await eachRow(t, ["nftables", "iptables"], async (backend) => {
      using scene = new MasqueradeScene("bridge", bridgeConfig, backend);
      const { hosts } = scene;
      const other = hosts.addNetns();
      const options = { sandbox: other, containerId: "other" };
      await scene.succeed("ADD");
      await scene.succeed("ADD", {}, options);
      // Masqueraded packets would have another source address.
      const rule = "iptables -A INPUT ! -s 10.1.2.2 -j DROP";
      runIn(other, "sh", "-c", rule);
      assert(canPing(hosts.sandbox, "10.1.2.3"));
    });
  },
);

rootTest(
  "bridge.del() keeps the masquerade rules of another network",
  needsRuleTools,
  async (t) => {
    await eachRow(t, ["nftables", "iptables"], async (backend) => {
      using scene = new MasqueradeScene("bridge", bridgeConfig, backend);
      const { hosts } = scene;
      const net2 = { name: "net2", bridge: "br2" };
      const other = { sandbox: hosts.addNetns(), containerId: "other" };
      await scene.succeed("ADD");
      const before = scene.rules;
      await scene.succeed("ADD", net2, other);
      await scene.succeed("DEL", net2, other);
      assertEquals(scene.rules, before);
      await scene.succeed("ADD", net2, other);
      await scene.succeed("DEL");
      assertStringIncludes(scene.rules, "other");
      await scene.succeed("DEL", net2, other);
      assertEquals(scene.rules, "");
    });
  },
);
