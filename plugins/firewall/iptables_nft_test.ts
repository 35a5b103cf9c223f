import { assertEquals } from "@std/assert";
import { NetlinkError } from "../../ffi/netlink/error.ts";
import { NetlinkSocket } from "../../ffi/netlink/socket.ts";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { intercept } from "../../testing/fault_injector.ts";
import { runIn } from "../../testing/ip_json.ts";
import type { CallOptions } from "../../testing/test_hosts.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { needsInetRules, needsRuleTools } from "../../tests/_harness/rules.ts";
import { FirewallScene } from "./testing.ts";

const EINTR = 4;
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
/** Commands that add such rules, and the rules as iptables lists them. */
const FOREIGN_COMMANDS: readonly (readonly [command: string, rule: string])[] =
  [
    ...FOREIGN.map((rule) => [`iptables ${rule}`, rule] as const),
    [
      "nft add rule ip filter CNI-FORWARD ip saddr 10.0.0.9 counter accept comment mine",
      "-A CNI-FORWARD -s 10.0.0.9/32 -m comment --comment mine -j ACCEPT",
    ],
  ];

rootTest(
  "firewall by iptables-nft takes no other rule for one of its own",
  needs,
  async (t) => {
    for (const [command, rule] of FOREIGN_COMMANDS) {
      await t.step(command, async () => {
        using scene = await startScene();
        const keys = otherKeys(scene);
        runIn(scene.hosts.host, "sh", "-ec", command);
        await scene.succeed("ADD", keys, OTHER);
        await scene.succeed("CHECK", keys, OTHER);
        assertEquals(otherRules(scene), [rule, ...OTHER_RULES]);
        await scene.succeed("DEL", keys, OTHER);
        assertEquals(otherRules(scene), [rule]);
      });
    }
  },
);

/** Chains that nft adds to the table of iptables, or to which it adds a rule. */
const FOREIGN_CHAINS: Readonly<Record<string, string>> = {
  "a foreign base chain":
    "chain forward { type filter hook forward priority 0; }",
  "a rule that iptables cannot express":
    "chain FORWARD { type filter hook forward priority 0; ct state vmap { established : accept }; }",
};

/** Keys that decide how ADD works. */
const CONFIGURED: Readonly<Record<string, Keys>> = {
  "no backend named": {},
  "backend iptables": { backend: "iptables" },
  "ingress policy": { ingressPolicy: "isolated" },
};

for (const [name, chain] of Object.entries(FOREIGN_CHAINS)) {
  rootTest(
    `STATUS of firewall succeeds if and only if ADD does: ${name}`,
    needs,
    async (t) => {
      for (const [configured, keys] of Object.entries(CONFIGURED)) {
        for (const isFirst of [true, false]) {
          const container = isFirst ? "first" : "second";
          await t.step(`${configured}, ${container} container`, async () => {
            using scene = isFirst ? new FirewallScene() : await startScene();
            runIn(scene.hosts.host, "nft", `table ip filter { ${chain}; }`);
            const status = await scene.run("STATUS", keys);
            const others = { ...keys, ...otherKeys(scene) };
            const added = await scene.run("ADD", others, OTHER);
            const codes = [status, added].map(({ json }) => json?.code);
            const isAdded = added.exitCode === 0;
            assertEquals(codes, isAdded ? [undefined, undefined] : [50, 999]);
          });
        }
      }
    },
  );
}

rootTest("CHECK of firewall repeats a disturbed dump", needs, async () => {
  using scene = await startScene();
  let dumps = 0;
  using stack = new DisposableStack();
  stack.defer(intercept(NetlinkSocket.prototype, "dump", (_, work) => {
    if (++dumps === 1) throw new NetlinkError("test", EINTR, {});
    return work();
  }));
  await scene.succeed("CHECK", { prevResult: scene.prevResult });
});
