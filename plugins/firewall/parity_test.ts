/**
 * firewall  compared with the Go plugin: what each leaves in the host's
 * iptables or in firewalld on the same configuration, and one checking and
 * deleting what the other has added. The only difference that is meant is our
 * record of owners, a table of nftables.
 */

import { assertEquals } from "@std/assert";
import { NetNs } from "../../ffi/netns.ts";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import type { CallOptions, CallOutput } from "../../testing/test_hosts.ts";
import {
  FakeFirewalld,
  needsBus,
} from "../../tests/_harness/fake_firewalld.ts";
import { FirewallScene } from "./testing.ts";
import { NEWEST_DIRECTORY, type Peer } from "../../tests/_harness/peers.ts";
import { spawnIn } from "../../tests/_harness/spawn_in.ts";
import {
  listPeers,
  nameOf,
  normaliseResult,
  testLeavesTheSame,
  type Who,
} from "../../tests/_harness/parity.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { needsRuleTools } from "../../tests/_harness/rules.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const BACKEND = { backend: "iptables" };
const RULE = "-j ACCEPT -m comment --comment other";

const ROWS: Readonly<Record<string, Keys>> = {
  "an address of each family": {},
  "same-bridge": { ingressPolicy: "same-bridge" },
  "isolated": { ingressPolicy: "isolated" },
  "another chain for the administrator": { iptablesAdminChainName: "MINE" },
  "keys in another case": { IngressPolicy: "isolated", BACKEND: "iptables" },
};

/** The rows that a peer knows: policy "isolated" came with Go 1.2. */
function rowsOf({ directory }: Peer): [name: string, keys: Keys][] {
  return Object.entries(ROWS).filter(([, keys]) =>
    directory === NEWEST_DIRECTORY || !Object.values(keys).includes("isolated")
  );
}

/** Runs a command of one side with the scene's result. */
function runAs(
  scene: FirewallScene,
  who: Who,
  command: string,
  keys: Keys = {},
  options: CallOptions = {},
): Promise<CallOutput> {
  const { prevResult } = scene;
  return scene.run(command, { prevResult, ...keys }, { who, ...options });
}

/** Runs a command that must succeed. */
async function succeedAs(
  ...call: Parameters<typeof runAs>
): Promise<CallOutput> {
  const output = await runAs(...call);
  assertEquals(output.exitCode, 0, output.stdout + output.stderr);
  return output;
}

/** Runs a command while this process serves what it calls. */
async function runBeside(
  scene: FirewallScene,
  who: Exclude<Who, "go">,
  command: string,
  env: Record<string, string>,
): Promise<{ readonly exitCode: number; readonly stdout: string }> {
  if (who === "ours") return await runAs(scene, who, command, {}, { env });
  const { prevResult, hosts, config } = scene;
  const options = { env: { ...env, PATH: "/usr/sbin:/usr/bin:/sbin:/bin" } };
  const child = spawnIn(hosts.host, {
    path: `${who.directory}/firewall`,
    env: hosts.environment(command, options),
    stdin: JSON.stringify({ ...config, prevResult }),
  });
  const { code, stdout } = await child.output;
  return { exitCode: code, stdout };
}

/** Returns all rules after each of some calls, and what the calls print. */
async function observe(
  who: Who,
  keys: Keys,
  cniVersion: string,
): Promise<unknown> {
  using scene = new FirewallScene({ ...BACKEND, cniVersion });
  for (const program of ["iptables", "ip6tables"]) {
    runIn(scene.hosts.host, program, "-A", "FORWARD", ...RULE.split(" "));
  }
  const seen: unknown[] = [];
  for (const command of ["ADD", "ADD", "CHECK", "DEL", "DEL"]) {
    const { stdout } = await succeedAs(scene, who, command, keys);
    const result = stdout && normaliseResult(stdout, scene.hosts);
    // Releases of the Go plugin differ in this.
    const rules = scene.rules.map((line) =>
      line.replace(/\(ingressPolicy: [^)]*\)/, "")
    );
    seen.push(command, rules, result);
  }
  return seen;
}

/** Returns an error without our details. */
async function errorOf(
  who: Who,
  command: string,
  keys: Keys,
  cniVersion: string,
): Promise<unknown> {
  using scene = new FirewallScene({ ...BACKEND, cniVersion });
  const { exitCode, json } = await runAs(scene, who, command, keys);
  return [exitCode, json?.msg];
}

for (const peer of listPeers("firewall")) {
  const { cniVersion } = peer;
  if (!needsRuleTools.ignore) {
    for (const [name, keys] of rowsOf(peer)) {
      testLeavesTheSame(
        peer,
        ["firewall", name],
        (who) => observe(who, keys, cniVersion),
      );
    }
  }

  rootTest(
    `firewall prints the same errors as the Go plugin (${peer.name})`,
    needsRuleTools,
    async (t) => {
      const rows: [name: string, command: string, keys: Keys][] = [
        ["no prevResult", "ADD", { prevResult: undefined }],
        ["no prevResult for CHECK", "CHECK", { prevResult: undefined }],
        ["nothing added", "CHECK", {}],
        ["no interfaces", "ADD", {
          ingressPolicy: "same-bridge",
          prevResult: {
            cniVersion,
            interfaces: [],
            ips: [{ version: "4", address: "10.0.0.2/24" }],
          },
        }],
        ["a bridge without a name", "ADD", {
          ingressPolicy: "same-bridge",
          prevResult: {
            cniVersion,
            interfaces: [{ name: "" }],
            ips: [{ version: "4", address: "10.0.0.2/24" }],
          },
        }],
        ["an old version", "ADD", { cniVersion: "0.3.1" }],
      ];
      await eachRow(t, rows, async ([, command, keys]) => {
        const [ours, theirs] = await Promise.all(
          (["ours", peer] as const).map((who) =>
            errorOf(who, command, keys, cniVersion)
          ),
        );
        assertEquals(ours, theirs);
      });
    },
  );

  for (const [adder, other] of [["ours", peer], [peer, "ours"]] as const) {
    rootTest(
      `firewall: what is added by ${nameOf(adder)} is checked and deleted by ${
        nameOf(other)
      }`,
      needsRuleTools,
      async (t) => {
        await eachRow(t, rowsOf(peer), async ([, keys]) => {
          using scene = new FirewallScene({ ...BACKEND, cniVersion });
          await succeedAs(scene, adder, "ADD", keys);
          const { rules } = scene;
          await succeedAs(scene, other, "CHECK", keys);
          await succeedAs(scene, other, "ADD", keys);
          // Go before 1.2 does not know the comments of later releases.
          if (other === "ours" || other.directory === NEWEST_DIRECTORY) {
            assertEquals(scene.rules, rules);
          }
          await succeedAs(scene, other, "DEL", keys);
          assertEquals(scene.ownRules, []);
        });
      },
    );
  }

  rootTest(
    `firewall removes the rules of ${peer.name} without prevResult`,
    needsRuleTools,
    async () => {
      using scene = new FirewallScene({ ...BACKEND, cniVersion });
      const { sandbox } = scene.hosts;
      const veth = "link add eth0 type veth peer name x0";
      runIn(sandbox, "ip", ...veth.split(" "));
      runIn(sandbox, "ip", "address", "add", "10.0.0.2/24", "dev", "eth0");
      const v6 = "-6 address add 2001:db8:1:2::1/64 dev eth0 nodad";
      runIn(sandbox, "ip", ...v6.split(" "));
      await succeedAs(scene, peer, "ADD");
      // The Go plugin's DEL leaves them.
      const { ownRules } = scene;
      await succeedAs(scene, peer, "DEL", { prevResult: undefined });
      assertEquals(scene.ownRules, ownRules);
      await succeedAs(scene, "ours", "DEL", { prevResult: undefined });
      assertEquals(scene.ownRules, []);
    },
  );

  rootTest(
    `firewall keeps the rules of an address that ${peer.name} assigned again`,
    needsRuleTools,
    async (t) => {
      const next = { containerId: "next" };
      const valid = [{ containerID: "next", ifname: "eth0" }];
      const gc = { cniVersion: "1.1.0", "cni.dev/valid-attachments": valid };
      // Without the first DEL both have the same rules.
      for (const commands of [["ADD", "DEL"], ["ADD"]]) {
        await t.step(
          `${commands.join(", ")}, ADD of the next, GC`,
          async () => {
            using scene = new FirewallScene({ ...BACKEND, cniVersion });
            await succeedAs(scene, "ours", "ADD");
            if (commands.includes("DEL")) await succeedAs(scene, peer, "DEL");
            await succeedAs(scene, peer, "ADD", {}, next);
            const { ownRules } = scene;
            await succeedAs(scene, "ours", "GC", gc);
            assertEquals([scene.ownRules, scene.table], [ownRules, ""]);
            await succeedAs(scene, "ours", "DEL", {}, next);
            assertEquals([scene.ownRules, scene.table], [[], ""]);
          },
        );
      }
      await t.step("ADD, DEL, ADD of the next, DEL of the next", async () => {
        using scene = new FirewallScene({ ...BACKEND, cniVersion });
        const sandbox = NetNs.create();
        await succeedAs(scene, "ours", "ADD", {}, { sandbox });
        await succeedAs(scene, peer, "DEL", {}, { sandbox });
        sandbox[Symbol.dispose]();
        await succeedAs(scene, peer, "ADD", {}, next);
        await succeedAs(scene, "ours", "DEL", {}, next);
        assertEquals([scene.ownRules, scene.table], [[], ""]);
      });
    },
  );

  rootTest(
    `firewall sends firewalld the same requests as the Go plugin (${peer.name})`,
    allOf(needsRuleTools, needsBus),
    async (t) => {
      for (const backend of [undefined, "firewalld"]) {
        await t.step(backend ?? "the host decides", async () => {
          const calls = [];
          for (const who of ["ours", peer] as const) {
            using scene = new FirewallScene({ backend, cniVersion });
            await using firewalld = await FakeFirewalld.start(
              scene.hosts.directory,
            );
            const { env } = firewalld;
            const results = [];
            for (const command of ["ADD", "ADD", "CHECK", "DEL", "DEL"]) {
              const output = await runBeside(scene, who, command, env);
              const { exitCode, stdout } = output;
              results.push([
                exitCode,
                stdout && normaliseResult(stdout, scene.hosts),
              ]);
            }
            calls.push([results, firewalld.calls, scene.rules]);
          }
          assertEquals(calls[0], calls[1]);
        });
      }
    },
  );
}
