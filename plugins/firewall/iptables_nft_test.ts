import { assertEquals } from "@std/assert";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { intercept } from "../../testing/fault_injector.ts";
import { runIn } from "../../testing/ip_json.ts";
import type { CallOptions } from "../../testing/test_hosts.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { needsInetRules, needsRuleTools } from "../../tests/_harness/rules.ts";
import { FirewallScene } from "./testing.ts";

const needs = allOf(needsRuleTools, needsInetRules);

/** Another container than that of the scene, and its rules of IPv4. */
const OTHER: CallOptions = { containerId: "other" };
const OTHER_RULES = [
  "-A CNI-FORWARD -d 10.0.0.9/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
  "-A CNI-FORWARD -s 10.0.0.9/32 -j ACCEPT",
];

function otherKeys({ prevResult }: FirewallScene): Keys {
  const ips = [{ address: "10.0.0.9/24" }, { address: "2001:db8:1:2::9/64" }];
  return { prevResult: { ...prevResult, ips } };
}

function otherRules({ rules }: FirewallScene): string[] {
  return rules.filter((rule) => rule.includes("10.0.0.9"));
}

/** Creates a host on which the scene's container has its rules. */
async function startScene(): Promise<FirewallScene> {
  using stack = new DisposableStack();
  const scene = stack.use(new FirewallScene({ backend: "iptables" }));
  const { prevResult } = scene;
  await scene.succeed("ADD", { prevResult });
  stack.move();
  return scene;
}

rootTest(
  "firewall by iptables-nft runs no program for the second container",
  needs,
  async () => {
    using scene = await startScene();
    const keys = otherKeys(scene);
    let programs = 0;
    using stack = new DisposableStack();
    stack.defer(intercept(Deno.Command.prototype, "spawn", (_, work) => {
      programs++;
      return work();
    }));
    await scene.succeed("ADD", keys, OTHER);
    await scene.succeed("ADD", keys, OTHER);
    await scene.succeed("CHECK", keys, OTHER);
    assertEquals(otherRules(scene), OTHER_RULES);
    await scene.succeed("DEL", keys, OTHER);
    assertEquals(programs, 0);
    assertEquals(otherRules(scene), []);
    assertEquals(scene.ownRules.length, 4);
  },
);

rootTest(
  "iptables finds and deletes the rules that firewall adds by netlink",
  needs,
  async () => {
    using scene = await startScene();
    await scene.succeed("ADD", otherKeys(scene), OTHER);
    for (const rule of OTHER_RULES) {
      const [, ...words] = rule.split(" ");
      for (const command of ["-C", "-D"]) {
        runIn(scene.hosts.host, "iptables", command, ...words);
      }
    }
    assertEquals(otherRules(scene), []);
  },
);

/** Rules that an administrator adds for the second container's address. */
const FOREIGN: readonly string[] = [
  "-A CNI-FORWARD -s 10.0.0.9/32 -m comment --comment mine -j ACCEPT",
  "-A CNI-FORWARD -s 10.0.0.9/32 -p tcp -j ACCEPT",
  "-A CNI-FORWARD ! -s 10.0.0.9/32 -j ACCEPT",
  "-A CNI-FORWARD -s 10.0.0.9/32 -m limit --limit 5/sec -j ACCEPT",
  "-A CNI-FORWARD -d 10.0.0.9/32 -m conntrack --ctstate NEW -j ACCEPT",
  "-A CNI-FORWARD -d 10.0.0.9/32 -j ACCEPT",
  "-A CNI-FORWARD -s 10.0.0.9/32 -j DROP",
];

rootTest(
  "firewall by iptables-nft takes no other rule for one of its own",
  needs,
  async (t) => {
    for (const rule of FOREIGN) {
      await t.step(rule, async () => {
        using scene = await startScene();
        const keys = otherKeys(scene);
        runIn(scene.hosts.host, "iptables", ...rule.split(" "));
        await scene.succeed("ADD", keys, OTHER);
        await scene.succeed("CHECK", keys, OTHER);
        assertEquals(otherRules(scene), [rule, ...OTHER_RULES]);
        await scene.succeed("DEL", keys, OTHER);
        assertEquals(otherRules(scene), [rule]);
      });
    }
  },
);
