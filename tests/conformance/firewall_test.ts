/**
 * firewall, as the Go plugin's own tests have it.
 *
 * Source: containernetworking/plugins plugins/meta/firewall/*_test.go.
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { listVersionsFrom } from "../../cni/version.ts";
import type { NetNs } from "../../ffi/netns.ts";
import { allOf, ignoreUnless, needsRoot } from "../../testing/capabilities.ts";
import { type CallOutput, TestHosts } from "../../testing/test_hosts.ts";
import { assertSuccess } from "../_harness/call_outcome.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { FakeFirewalld, needsBus } from "../_harness/fake_firewalld.ts";
import { ADDRESSES, FirewallScene } from "../../plugins/firewall/testing.ts";
import { needsInetRules, needsRuleTools } from "../_harness/rules.ts";
import { spawnIn } from "../_harness/spawn_in.ts";
import { eachRow } from "../_harness/table.ts";

const IPTABLES = { backend: "iptables" };

/** Asserts the chains, and the rules of both addresses. */
function assertRules({ rules }: FirewallScene, admin: string): void {
  for (const chain of ["CNI-FORWARD", admin]) {
    assertEquals(rules.filter((line) => line === `-N ${chain}`).length, 2);
  }
  for (
    const line of [
      '-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD',
      `-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j ${admin}`,
    ]
  ) {
    assertEquals(rules.filter((one) => one === line).length, 2, line);
  }
  for (const address of ADDRESSES) {
    const own = [
      `-A CNI-FORWARD -d ${address} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
      `-A CNI-FORWARD -s ${address} -j ACCEPT`,
    ];
    assertEquals(rules.filter((line) => own.includes(line)), own);
  }
}

/** Containers behind two bridges: two on `foo`, one on `bar`. */
async function reachWithPolicy(
  backend: string,
  ingressPolicy: string,
): Promise<string[]> {
  using hosts = TestHosts.create();
  const networks = { foo: "10.88.3", bar: "10.88.4" };
  const containers: { sandbox: NetNs; address: string; name: string }[] = [];
  const undo: (() => Promise<CallOutput>)[] = [];
  for (const [index, name] of (["foo", "foo", "bar"] as const).entries()) {
    const sandbox = hosts.addNetns();
    const options = { sandbox, containerId: `test-cni-firewall-${index}` };
    const config = {
      cniVersion: "1.0.0",
      name,
      bridge: name,
      isDefaultGateway: true,
      ipam: {
        ...hosts.hostLocal(`${networks[name]}.0/24`),
        dataDir: `${hosts.directory}/${name}`,
      },
    };
    const added = await hosts.run("bridge", "ADD", config, options);
    assertSuccess(added);
    const chained = {
      ...config,
      backend,
      ingressPolicy,
      prevResult: added.json,
    };
    assertSuccess(await hosts.run("firewall", "ADD", chained, options));
    assertSuccess(await hosts.run("firewall", "CHECK", chained, options));
    undo.push(() => hosts.run("firewall", "DEL", chained, options));
    const [address = ""] = added.json.ips[0].address.split("/");
    containers.push({ sandbox, address, name: `${name}${index}` });
  }
  const pairs = containers.flatMap((from) =>
    containers.filter((to) => to !== from).map((to) => ({ from, to }))
  );
  const answers = await Promise.all(
    pairs.map(({ from, to }) => pings(from.sandbox, to.address)),
  );
  const reached = pairs.filter((_, index) => answers[index])
    .map(({ from, to }) => `${from.name} → ${to.name}`);
  for (const del of undo) assertSuccess(await del());
  return reached;
}

/** Reports whether an address answers. Pings without an answer take a second. */
async function pings(netns: NetNs, address: string): Promise<boolean> {
  const env = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" };
  const args = ["-c1", "-i0.2", "-w1", address];
  const ping = spawnIn(netns, { path: "ping", args, env, stdin: "" });
  return (await ping.output).code === 0;
}

const ROWS: Readonly<Record<string, Row>> = {
  "FW-1 prevResult is passed on": async (t) => {
    await eachRow(
      t,
      listVersionsFrom("0.4.0").map((version) => [version]),
      async ([cniVersion]) => {
        using scene = new FirewallScene({ ...IPTABLES, cniVersion });
        const { prevResult } = scene;
        const { json } = await scene.succeed("ADD", { prevResult });
        assertEquals(json, prevResult);
        await scene.succeed("CHECK", { prevResult });
        await scene.succeed("DEL", { prevResult });
      },
    );
  },

  "FW-2 chains, jumps and the rules of each address": async () => {
    using scene = new FirewallScene(IPTABLES);
    const { prevResult } = scene;
    await scene.succeed("ADD", { prevResult });
    assertRules(scene, "CNI-ADMIN");
    const { rules } = scene;
    await scene.succeed("ADD", { prevResult });
    assertEquals(scene.rules, rules);
  },

  "FW-3 another chain for the administrator": async () => {
    using scene = new FirewallScene({
      ...IPTABLES,
      iptablesAdminChainName: "CNI-foobar",
    });
    const { prevResult } = scene;
    await scene.succeed("ADD", { prevResult });
    assertRules(scene, "CNI-foobar");
    await scene.succeed("DEL", { prevResult });
    assert(scene.rules.includes("-N CNI-foobar"));
  },

  "FW-4 DEL removes the rules of the addresses": async () => {
    using scene = new FirewallScene(IPTABLES);
    const { prevResult } = scene;
    await scene.succeed("ADD", { prevResult });
    const { rules, ownRules } = scene;
    await scene.succeed("CHECK", { prevResult });
    assertEquals(scene.rules, rules);
    await scene.succeed("DEL", { prevResult });
    assertEquals(scene.ownRules, []);
    assertEquals(scene.rules, rules.filter((line) => !ownRules.includes(line)));
  },
};
conformance("firewall", ROWS, allOf(needsRoot, needsRuleTools));

const needsBridgedRules = ignoreUnless(
  isThere("/proc/sys/net/bridge/bridge-nf-call-iptables"),
  "needs the module br_netfilter",
);

for (const backend of ["iptables", "nftables"]) {
  const needs = allOf(needsRoot, needsRuleTools, needsInetRules);
  conformance("firewall traffic", {
    [`FW-5 same-bridge lets containers of one network talk (${backend})`]:
      async () =>
        assertEquals(await reachWithPolicy(backend, "same-bridge"), [
          "foo0 → foo1",
          "foo1 → foo0",
        ]),
  }, needs);
  conformance("firewall traffic", {
    [`FW-6 isolated lets no containers talk (${backend})`]: async () => {
      assertEquals(await reachWithPolicy(backend, "isolated"), []);
    },
  }, allOf(needs, needsBridgedRules));
}

/** Runs a test with firewalld. */
function withFirewalld(
  keys: object,
  run: (
    scene: FirewallScene,
    firewalld: FakeFirewalld,
    call: (command: string) => Promise<CallOutput>,
  ) => Promise<void>,
): Row {
  return async () => {
    using scene = new FirewallScene({ ...keys });
    await using firewalld = await FakeFirewalld.start(scene.hosts.directory);
    const { env } = firewalld, { prevResult } = scene;
    await run(
      scene,
      firewalld,
      (command) => scene.succeed(command, { prevResult }, { env }),
    );
  };
}

const FIREWALLD = { backend: "firewalld" };

conformance("firewall", {
  "FW-7 ADD adds the addresses to the trusted zone of firewalld, DEL removes them":
    withFirewalld(FIREWALLD, async (scene, firewalld, call) => {
      await call("ADD");
      assertEquals(
        firewalld.calls,
        ADDRESSES.map((one) => `addSource trusted ${one}`),
      );
      assertEquals([...firewalld.sources.keys()], [...ADDRESSES]);
      await call("DEL");
      assertEquals(
        firewalld.calls.slice(2).sort(),
        ADDRESSES.map((one) => `removeSource trusted ${one}`),
      );
      assertEquals(firewalld.sources.size, 0);
      assertEquals(scene.ownRules, []);
    }),

  "FW-8 firewalld is used if it runs": withFirewalld(
    {},
    async (scene, firewalld, call) => {
      await call("STATUS");
      await call("ADD");
      assertEquals([...firewalld.sources.values()], ["trusted", "trusted"]);
      assertEquals(scene.ownRules, []);
      await call("DEL");
      assertEquals(firewalld.sources.size, 0);
    },
  ),

  "FW-9 prevResult is passed on with firewalld": withFirewalld(
    FIREWALLD,
    async (scene, _, call) => {
      assertEquals((await call("ADD")).json, scene.prevResult);
    },
  ),

  "FW-10 CHECK asks firewalld": withFirewalld(
    FIREWALLD,
    async (scene, firewalld, call) => {
      await call("ADD");
      await call("CHECK");
      assertMatch(firewalld.calls.at(-1) ?? "", /^querySource trusted 2001:/);
      firewalld.sources.delete(ADDRESSES[0]);
      const { json } = await scene.run(
        "CHECK",
        { prevResult: scene.prevResult },
        { env: firewalld.env },
      );
      assertEquals(
        [json.code, json.msg],
        [999, "failed to find the address 10.0.0.2/32 in trusted zone"],
      );
    },
  ),
}, allOf(needsRoot, needsRuleTools, needsBus));

function isThere(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch {
    return false;
  }
}
