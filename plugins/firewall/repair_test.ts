/** REPAIR of firewall, after other programs have removed its rules. */

import { assertEquals, assertNotEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { needsRuleTools, rulesOf } from "../../tests/_harness/rules.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { FirewallScene } from "./testing.ts";

const FLUSHES: readonly [backend: string, script: string][] = [
  ["iptables", "nft flush ruleset"],
  ["iptables", "iptables -F; ip6tables -F"],
  ["iptables", "iptables -F FORWARD"],
  ["nftables", "nft flush ruleset"],
  ["nftables", "nft flush set inet cni_firewall addresses4"],
  ["nftables", "nft flush chain inet cni_firewall forward"],
];

rootTest(
  "firewall.repair() restores flushed rules",
  needsRuleTools,
  async (t) => {
    await eachRow(t, FLUSHES, async ([backend, script]) => {
      const keys = { backend, ingressPolicy: "same-bridge" };
      using scene = new FirewallScene(keys);
      const { prevResult, hosts: { host } } = scene;
      await scene.succeed("ADD", { prevResult });
      const before = rulesOf(host);
      runIn(host, "sh", "-ec", script);
      const { json } = await scene.succeed("REPAIR", { prevResult });
      assertNotEquals(json.repaired, []);
      assertEquals(json.remaining, []);
      await scene.succeed("CHECK", { prevResult });
      assertEquals(rulesOf(host).toSorted(), before.toSorted());
      const again = await scene.succeed("REPAIR", { prevResult });
      assertEquals(again.json.repaired, []);
      await scene.succeed("DEL", { prevResult });
      assertEquals(scene.ownRules, []);
    });
  },
);
