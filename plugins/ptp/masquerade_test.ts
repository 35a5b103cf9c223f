import { assert, assertEquals, assertMatch } from "@std/assert";
import { sha512 } from "../../base/process/sha512.ts";
import { allOf, type Needs, rootTest } from "../../testing/capabilities.ts";
import { dualStack } from "../../tests/_harness/dual_stack.ts";
import { runIn } from "../../testing/ip_json.ts";
import {
  MasqueradeScene,
  testMasquerade,
} from "../../tests/_harness/masquerade_scene.ts";
import { OUTSIDE, reached } from "../../tests/_harness/outside.ts";
import { needsGo } from "../../tests/_harness/parity.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import {
  needsInetRules,
  needsLegacyIptables,
  needsRuleTools,
} from "../../tests/_harness/rules.ts";
import type { TestHosts } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const GO = { who: "go" } as const;

/** The newest version that the Go plugin supports, too. */
function makeConfig(hosts: TestHosts, extras: Keys): Keys {
  return { ...dualStack(hosts, extras), cniVersion: "1.0.0" };
}

function makeScene(backend?: string): MasqueradeScene {
  return new MasqueradeScene("ptp", makeConfig, backend);
}

/** Registers a test that needs namespaces and the rule tools. */
function testRules(
  name: string,
  fn: (t: Deno.TestContext) => Promise<void>,
  ...needs: readonly Needs[]
): void {
  rootTest(name, allOf(needsRuleTools, needsInetRules, ...needs), fn);
}

testMasquerade("ptp", makeConfig);

/** Names that belong to container test-container, network net1, eth0. */
const OWN = /10\.1\.2\.|2001:db8:1::[2-9]|test-container|CNI-/;

testRules(
  "ptp.check() accepts the backend that the Go plugin chose",
  async () => {
    using scene = makeScene();
    const added = await scene.succeed("ADD", {}, GO);
    const prevResult = added.json;
    await scene.succeed("CHECK", { prevResult });
    runIn(scene.hosts.host, "iptables", "-t", "nat", "-F", "POSTROUTING");
    await scene.fail("CHECK", [999, "The masquerade is missing"], {
      prevResult,
    });
  },
  needsGo("ptp"),
);

testRules(
  "ptp.add() adds the missing jump to existing masquerade rules",
  async () => {
    using scene = makeScene("nftables");
    const table = "inet cni_plugins_masquerade";
    const chain = "{ type nat hook postrouting priority srcnat; }";
    const commands = [
      `add table ${table}`,
      `add chain ${table} postrouting ${chain}`,
      `add rule ${table} postrouting ip daddr 224.0.0.0/4 return`,
    ];
    for (const command of commands) runIn(scene.hosts.host, "nft", command);
    await scene.succeed("ADD");
    assertEquals(reached(scene.hosts.sandbox), OUTSIDE);
  },
);

testRules(
  "ptp.del() removes the masquerade rules if prevResult has no addresses",
  async () => {
    using scene = makeScene("iptables");
    const { json } = await scene.succeed("ADD");
    await scene.succeed("DEL", { prevResult: { ...json, ips: [] } });
    scene.assertEnded();
  },
);

testRules(
  "ptp.del() removes the masquerade rules without sandbox and prevResult",
  async (t) => {
    await eachRow(t, ["nftables", "iptables"], async (backend) => {
      using scene = makeScene(backend);
      await scene.succeed("ADD");
      await scene.succeed("DEL", {}, { env: { CNI_NETNS: "" } });
      scene.assertEnded();
    });
  },
);

testRules(
  "ptp.del() removes the masquerade rules after the backend was changed",
  async (t) => {
    const rows = [["nftables", "iptables"], ["iptables", "nftables"]] as const;
    await eachRow(t, rows, async ([before, now]) => {
      using scene = makeScene(before);
      await scene.succeed("ADD");
      await scene.succeed("DEL", { ipMasqBackend: now });
      scene.assertEnded();
    }, ([before, now]) => `${before}, then ${now}`);
  },
);

testRules(
  "ptp.del() keeps the masquerade rules of the container's other interface",
  async (t) => {
    const rows = ["nftables", "iptables"].flatMap((backend) =>
      [true, false].map((isKnown) => [backend, isKnown] as const)
    );
    await eachRow(
      t,
      rows,
      async ([backend, isKnown]) => {
        using scene = makeScene(backend);
        const { hosts } = scene;
        const withoutRoutes = { ipam: hosts.hostLocal("10.1.2.0/24") };
        const other = { ifName: "net1" };
        const first = await scene.succeed("ADD", withoutRoutes, other);
        await scene.succeed("ADD");
        const prevResult = isKnown ? first.json : undefined;
        await scene.succeed("DEL", { ...withoutRoutes, prevResult }, other);
        assertEquals(reached(hosts.sandbox), OUTSIDE);
        await scene.succeed("DEL");
        scene.assertEnded();
      },
      ([backend, isKnown]) =>
        `${backend}, ${isKnown ? "with" : "without"} prevResult`,
    );
  },
);

testRules(
  "ptp.add() keeps the masquerade rules of an interface added just before",
  async () => {
    using scene = makeScene("iptables");
    const other = { ifName: "net1" };
    const ipam = scene.hosts.hostLocal("10.1.2.0/24");
    const before = scene.hosts.addNetns();
    await scene.succeed("ADD", { ipam }, { sandbox: before });
    await scene.succeed("ADD", { ipam }, { ...other, sandbox: before });
    // The container was restarted without a DEL.
    await Deno.remove(`${scene.hosts.directory}/leases`, { recursive: true });
    await scene.succeed("ADD");
    await scene.succeed("ADD", { ipam }, other);
    assertEquals(reached(scene.hosts.sandbox), OUTSIDE);
  },
);

testRules(
  "ptp.add() masquerades an address of a dead container",
  async () => {
    using scene = makeScene();
    const { hosts } = scene;
    await scene.succeed("ADD", {}, { containerId: "dead" });
    // The state after a crash: the lease is free again, the container's end is
    // down, and everything else still exists.
    runIn(hosts.sandbox, "ip", "link", "set", "eth0", "down");
    await Deno.remove(`${hosts.directory}/leases`, { recursive: true });
    const sandbox = hosts.addNetns();
    const alive = { sandbox, containerId: "alive" };
    await scene.succeed("ADD", {}, alive);
    assertEquals(reached(sandbox), OUTSIDE);
    await scene.succeed("DEL", {}, { containerId: "dead" });
    assertEquals(reached(sandbox), OUTSIDE);
    assert(!scene.rules.includes("dead"));
    await scene.succeed("DEL", {}, alive);
    assert(!scene.rules.includes("alive"));
  },
);

testRules(
  "ptp.add() removes the rules of its own earlier attachment",
  async (t) => {
    await eachRow(t, ["nftables", "iptables"], async (backend) => {
      using scene = makeScene(backend);
      const { hosts } = scene;
      const [netns, again] = [hosts.addNetns(), hosts.addNetns()];
      const dead = await scene.succeed("ADD", {}, { sandbox: netns });
      await Deno.remove(`${hosts.directory}/leases/net1/10.1.2.2`);
      await Deno.remove(`${hosts.directory}/leases/net1/2001:db8:1::2`);
      await scene.succeed("ADD", {}, { sandbox: again });
      assertEquals(reached(again), OUTSIDE);
      assertEquals(dead.json.ips[0].address, "10.1.2.2/24");
      assert(!/10\.1\.2\.2\b/.test(scene.rules), scene.rules);
    });
  },
);

testRules("ptp.check() reports missing masquerade rules", async (t) => {
  const table = ["inet", "cni_plugins_masquerade"];
  const rows: [name: string, backend: string, tamper: string[]][] = [
    ["the rules of the addresses", "nftables", [
      ...["nft", "flush", "chain", ...table, "masq_checks"],
    ]],
    ["the way to them", "nftables", [
      ...["nft", "flush", "chain", ...table, "postrouting"],
    ]],
    ["the table", "nftables", ["nft", "delete", "table", ...table]],
    ["the way to the chain", "iptables", [
      ..."iptables -t nat -F POSTROUTING".split(" "),
    ]],
    ["what one family's chain does", "iptables", [
      "sh",
      "-c",
      "ip6tables -t nat -F $(ip6tables -t nat -S | sed -n 's/^-N //p')",
    ]],
    ["the table of iptables", "iptables", [
      "nft",
      "delete",
      "table",
      "ip",
      "nat",
    ]],
  ];
  await eachRow(t, rows, async ([, backend, [program = "", ...args]]) => {
    using scene = makeScene(backend);
    const { json: prevResult } = await scene.succeed("ADD");
    runIn(scene.hosts.host, program, ...args);
    await scene.fail("CHECK", [999, "The masquerade is missing"], {
      prevResult,
    });
  });
});

testRules(
  "ptp.add() uses nftables if its names are too long for iptables comments",
  async () => {
    using scene = makeScene();
    const names = { name: "n".repeat(160) };
    const containerId = "c".repeat(83);
    const { json } = await scene.succeed("ADD", names, { containerId });
    assertEquals(reached(scene.hosts.sandbox), OUTSIDE);
    assertMatch(scene.rules, /chain masq_checks/);
    const prevResult = { ...names, prevResult: json };
    await scene.succeed("CHECK", prevResult, { containerId });
    await scene.succeed("DEL", prevResult, { containerId });
    assertEquals(scene.rules, "");
  },
);

testRules(
  "ptp.add() with iptables excludes the subnets of all interfaces of a container",
  async (t) => {
    await eachRow(t, ["nft", "legacy"], async (variant) => {
      using scene = makeScene("iptables");
      const { hosts } = scene;
      for (const name of ["iptables", "iptables-restore"]) {
        const multi = `/usr/sbin/xtables-${variant}-multi`;
        await Deno.symlink(multi, `${hosts.directory}/${name}`);
      }
      const env = { PATH: hosts.directory };
      for (const [at, ifName] of ["eth0", "net1"].entries()) {
        const ipam = hosts.hostLocal(`10.${at}.0.0/24`);
        await scene.succeed("ADD", { ipam }, { ifName, env });
      }
      const own = runIn(hosts.host, `iptables-${variant}-save`).split("\n")
        .filter((line) => line.startsWith("-A CNI-"))
        .map((line) => line.replace(/^\S+ \S+ (.*) -m .* -j /, "$1 "));
      assertEquals(own, [
        "-d 10.1.0.0/24 ACCEPT",
        "-d 10.0.0.0/24 ACCEPT",
        "! -d 224.0.0.0/4 MASQUERADE",
      ]);
    });
  },
  needsLegacyIptables(),
);

testRules("ptp keeps a table in which another program has rules", async () => {
  using scene = makeScene("iptables");
  const { host } = scene.hosts;
  await scene.succeed("ADD");
  // Our table, in which another program now has a rule.
  const rule = "POSTROUTING -o wan0 -j MASQUERADE".split(" ");
  runIn(host, "iptables", "-t", "nat", "-A", ...rule);
  runIn(host, "ip6tables", "-t", "nat", "-N", "THEIRS");
  await scene.succeed("DEL");
  assertMatch(scene.rules, /-A POSTROUTING -o wan0 -j MASQUERADE/);
  assertMatch(scene.rules, /:THEIRS/);
  await scene.succeed("ADD");
  runIn(host, "iptables", "-t", "nat", "-D", ...rule);
  runIn(host, "ip6tables", "-t", "nat", "-X", "THEIRS");
  await scene.succeed("DEL");
  assertEquals(scene.rules, "");
});

testRules("ptp.add() refuses an unknown backend", async () => {
  using scene = makeScene("pf");
  await scene.fail("ADD", [
    7,
    'ipMasqBackend: expected "nftables" or "iptables", got "pf"',
  ]);
  await scene.succeed("ADD", { ipMasq: false });
  await scene.succeed("DEL", { ipMasq: false });
  assertEquals(scene.hosts.leases(), []);
  for (const extras of [{}, { mtu: "wrong, too" }]) {
    const deleted = await scene.run("DEL", extras);
    assertEquals(deleted.exitCode, 0, deleted.stdout);
  }
});

testRules(
  "ptp and the Go plugin remove each other's masquerade rules",
  async (t) => {
    await t.step("the Go plugin adds, ptp deletes", async () => {
      using scene = makeScene();
      await scene.succeed("ADD", {}, GO);
      assertMatch(scene.rules, OWN);
      await scene.succeed("DEL", {}, { env: { CNI_NETNS: "" } });
      assert(!OWN.test(scene.rules), scene.rules);
    });
    await t.step("the Go plugin adds, ptp checks", async () => {
      using scene = makeScene("iptables");
      const { json: prevResult } = await scene.succeed("ADD", {}, GO);
      await scene.succeed("CHECK", { prevResult });
    });
    await t.step("ptp adds, the Go plugin deletes", async () => {
      using scene = makeScene("iptables");
      const added = await scene.succeed("ADD");
      assertMatch(scene.rules, OWN);
      await scene.succeed("CHECK", { prevResult: added.json }, GO);
      await scene.succeed("DEL", { prevResult: added.json }, GO);
      assert(!OWN.test(scene.rules), scene.rules);
    });
    await t.step("both leave the same rules", async () => {
      using go = makeScene("iptables");
      using ours = makeScene("iptables");
      await go.succeed("ADD", {}, GO);
      await ours.succeed("ADD");
      const save = ({ hosts }: MasqueradeScene): string[] =>
        ["iptables-save", "ip6tables-save"].flatMap((program) =>
          runIn(hosts.host, program, "-t", "nat").split("\n")
            .filter((line) => line.startsWith("-A"))
        );
      assertEquals(save(ours), save(go));
    });
  },
  needsGo("ptp"),
);

testRules("ptp masquerades with iptables-legacy", async () => {
  using scene = makeScene();
  const { host } = scene.hosts;
  // The chain as an older release or the Go plugin leaves it on such a host.
  const chain = "CNI-" +
    (await sha512("net1test-container")).slice(0, 24);
  for (
    const args of [
      ["-N", chain],
      ["-A", chain, "-j", "MASQUERADE"],
      ["-A", "POSTROUTING", "-s", "10.1.2.2", "-j", chain],
    ]
  ) runIn(host, "iptables-legacy", "-t", "nat", ...args);
  await scene.succeed("DEL");
  assertEquals(
    runIn(host, "iptables-legacy", "-t", "nat", "-S").includes(chain),
    false,
  );
}, needsLegacyIptables());

testRules(
  "ptp with iptables-legacy replaces an outbound address",
  async () => {
    using scene = makeScene("iptables");
    const { hosts } = scene;
    for (const name of ["iptables", "ip6tables"]) {
      for (const suffix of ["", "-restore"]) {
        const path = `${hosts.directory}/${name}${suffix}`;
        await Deno.symlink("/usr/sbin/xtables-legacy-multi", path);
      }
    }
    const options = { env: { PATH: hosts.directory } };
    const listTargets = (): string[] =>
      ["iptables", "ip6tables"].flatMap((program) =>
        runIn(hosts.host, `${program}-legacy-save`, "-t", "nat")
          .match(/(MASQUERADE|SNAT .*)$/gm) ?? []
      );
    const own = ["192.0.2.9", "2001:db8:ff::9"];
    const keys = { outboundAddresses: own };
    const targets = own.map((address) => `SNAT --to-source ${address}`);
    const { json: prevResult } = await scene.succeed("ADD", keys, options);
    assertEquals(listTargets(), targets);
    await scene.succeed("CHECK", { ...keys, prevResult }, options);
    await scene.succeed("REPAIR", { prevResult }, options);
    assertEquals(listTargets(), ["MASQUERADE", "MASQUERADE"]);
    await scene.succeed("REPAIR", { ...keys, prevResult }, options);
    assertEquals(listTargets(), targets);
    await scene.succeed("DEL", { prevResult }, options);
    assertEquals(listTargets(), []);
  },
  needsLegacyIptables(),
);
