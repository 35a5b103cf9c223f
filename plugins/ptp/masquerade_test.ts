import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { sha512 } from "../../cni/sha512.ts";
import type { NetNs } from "../../ffi/netns.ts";
import {
  goPlugin,
  hasCommand,
  ignoreUnless,
  requireRoot,
} from "../../tests/_harness/capabilities.ts";
import { runIn } from "../../tests/_harness/ip_json.ts";
import {
  connectOutside,
  OUTSIDE,
  reached,
} from "../../tests/_harness/outside.ts";
import { type CallOutput, TestHosts } from "../../tests/_harness/test_hosts.ts";

const needsTools = ignoreUnless(
  hasCommand("nft") && hasCommand("iptables"),
  "needs nft and iptables",
);
const GO = (goPlugin("ptp") ?? "").replace(/\/[^/]*$/, "");
const needsGo = ignoreUnless(GO !== "", "needs the Go plugins");

/** A throw-away host with a sandbox, and with something to reach. */
class Fixture implements Disposable {
  readonly hosts = TestHosts.create();
  readonly config: Record<string, unknown>;

  constructor(backend?: string) {
    connectOutside(this.hosts);
    this.config = {
      cniVersion: "1.0.0",
      name: "net1",
      type: "ptp",
      ipMasq: true,
      ...backend === undefined ? {} : { ipMasqBackend: backend },
      ipam: {
        ...this.hosts.hostLocal("10.1.2.0/24", "2001:db8:1::/64"),
        routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
      },
    };
  }

  /** Runs our plugin. */
  async run(
    command: string,
    options: Parameters<TestHosts["run"]>[3] = {},
    extras: Record<string, unknown> = {},
  ): Promise<CallOutput> {
    const config = { ...this.config, ...extras };
    const output = await this.hosts.run("ptp", command, config, options);
    assertEquals(output.exitCode, 0, output.stdout + output.stderr);
    return output;
  }

  /** Runs the Go plugin. */
  runGo(command: string, extras: Record<string, unknown> = {}): CallOutput {
    const config = { ...this.config, ...extras };
    const env = { CNI_PATH: GO };
    const output = this.hosts.exec(`${GO}/ptp`, command, config, { env });
    assertEquals(output.exitCode, 0, output.stdout + output.stderr);
    return output;
  }

  /** Lists all rules of the host, of both programs. */
  rules(): string {
    return rulesOf(this.hosts.host);
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

/** Lists rules as nft and iptables show them. */
function rulesOf(host: NetNs): string {
  return runIn(host, "nft", "list", "ruleset") +
    runIn(host, "iptables-save") + runIn(host, "ip6tables-save");
}

/** Registers a test that needs namespaces and the tools. */
function testRules(
  name: string,
  run: (t: Deno.TestContext) => Promise<void>,
  needs: { ignore: boolean; suffix: string } = { ignore: false, suffix: "" },
): void {
  const root = requireRoot(name + needsTools.suffix + needs.suffix);
  const ignore = root.ignore || needsTools.ignore || needs.ignore;
  Deno.test({ name: root.name, ignore, fn: run });
}

/** The names that belong to container test-container, network net1, eth0. */
const OWN = /10\.1\.2\.|2001:db8:1::[2-9]|test-container|CNI-/;

testRules(
  "ptp.add() masquerades by each backend, and DEL ends it",
  async (t) => {
    for (const backend of [undefined, "nftables", "iptables"]) {
      await t.step(backend ?? "none asked for", async () => {
        using fixture = new Fixture(backend);
        const { hosts } = fixture;
        const added = await fixture.run("ADD");
        assertEquals(reached(hosts.sandbox), [...OUTSIDE]);
        assertMatch(fixture.rules(), /test-container/);
        await fixture.run("CHECK", {}, { prevResult: added.json });
        await fixture.run("STATUS", {}, { cniVersion: "1.1.0" });
        await fixture.run("DEL", {}, { prevResult: added.json });
        assert(!/test-container|CNI-/.test(fixture.rules()), fixture.rules());
        await fixture.run("DEL");
      });
    }
  },
);

testRules("ptp.add() does not masquerade unless it is asked to", async () => {
  using fixture = new Fixture();
  await fixture.run("ADD", {}, { ipMasq: false });
  assertEquals(reached(fixture.hosts.sandbox), []);
  assertEquals(fixture.rules(), "");
});

testRules(
  "ptp.check() accepts the backend that the Go plugin has chosen",
  async () => {
    using fixture = new Fixture();
    const added = fixture.runGo("ADD");
    const prevResult = added.json;
    await fixture.run("CHECK", {}, { prevResult });
    runIn(fixture.hosts.host, "iptables", "-t", "nat", "-F", "POSTROUTING");
    const config = { ...fixture.config, prevResult };
    const checked = await fixture.hosts.run("ptp", "CHECK", config);
    assertEquals(checked.exitCode, 1);
    assertStringIncludes(checked.stdout, "The masquerade is gone");
  },
  needsGo,
);

testRules(
  "ptp.del() ends the masquerade by a prevResult without addresses",
  async () => {
    using fixture = new Fixture("iptables");
    const { json } = await fixture.run("ADD");
    await fixture.run("DEL", {}, { prevResult: { ...json, ips: [] } });
    assert(!/test-container|CNI-/.test(fixture.rules()), fixture.rules());
  },
);

testRules(
  "ptp.del() ends the masquerade without sandbox and prevResult",
  async (t) => {
    for (const backend of ["nftables", "iptables"]) {
      await t.step(backend, async () => {
        using fixture = new Fixture(backend);
        await fixture.run("ADD");
        await fixture.run("DEL", { env: { CNI_NETNS: "" } });
        assert(!/test-container|CNI-/.test(fixture.rules()), fixture.rules());
      });
    }
  },
);

testRules(
  "ptp.del() ends the masquerade whatever the backend is now",
  async (t) => {
    const rows = [["nftables", "iptables"], ["iptables", "nftables"]] as const;
    for (const [before, now] of rows) {
      await t.step(`${before}, then ${now}`, async () => {
        using fixture = new Fixture(before);
        await fixture.run("ADD");
        await fixture.run("DEL", {}, { ipMasqBackend: now });
        assert(!/test-container|CNI-/.test(fixture.rules()), fixture.rules());
      });
    }
  },
);

testRules(
  "ptp.del() leaves the masquerade of the container's other interface",
  async (t) => {
    for (const backend of ["nftables", "iptables"]) {
      await t.step(backend, async () => {
        using fixture = new Fixture(backend);
        const { hosts } = fixture;
        const withoutRoutes = { ipam: hosts.hostLocal("10.1.2.0/24") };
        const other = { ifName: "net1" };
        const first = await fixture.run("ADD", other, withoutRoutes);
        await fixture.run("ADD");
        await fixture.run("DEL", other, {
          ...withoutRoutes,
          prevResult: first.json,
        });
        assertEquals(reached(hosts.sandbox), [...OUTSIDE]);
        await fixture.run("DEL");
        assert(!/test-container|CNI-/.test(fixture.rules()), fixture.rules());
      });
    }
  },
);

testRules(
  "ptp.add() masquerades an address that another container has left",
  async () => {
    using fixture = new Fixture();
    const { hosts } = fixture;
    await fixture.run("ADD", { containerId: "dead" });
    // As after a crash: the lease is free again, and all else is still there.
    await Deno.remove(`${hosts.folder}/leases`, { recursive: true });
    const sandbox = hosts.addNetns();
    const alive = { sandbox, containerId: "alive" };
    await fixture.run("ADD", alive);
    assertEquals(reached(sandbox), [...OUTSIDE]);
    await fixture.run("DEL", { containerId: "dead" });
    assertEquals(reached(sandbox), [...OUTSIDE]);
    assert(!fixture.rules().includes("dead"));
    await fixture.run("DEL", alive);
    assert(!fixture.rules().includes("alive"));
  },
);

testRules(
  "ptp.add() removes what a dead attachment of its own has left",
  async (t) => {
    for (const backend of ["nftables", "iptables"]) {
      await t.step(backend, async () => {
        using fixture = new Fixture(backend);
        const { hosts } = fixture;
        const [netns, again] = [hosts.addNetns(), hosts.addNetns()];
        const dead = await fixture.run("ADD", { sandbox: netns });
        await Deno.remove(`${hosts.folder}/leases/net1/10.1.2.2`);
        await Deno.remove(`${hosts.folder}/leases/net1/2001:db8:1::2`);
        await fixture.run("ADD", { sandbox: again });
        assertEquals(reached(again), [...OUTSIDE]);
        assertEquals(dead.json.ips[0].address, "10.1.2.2/24");
        assert(!/10\.1\.2\.2\b/.test(fixture.rules()), fixture.rules());
      });
    }
  },
);

testRules(
  "ptp.gc() ends the masquerades of attachments that are not valid",
  async (t) => {
    for (const backend of ["nftables", "iptables"]) {
      await t.step(backend, async () => {
        using fixture = new Fixture(backend);
        const { hosts } = fixture;
        for (const containerId of ["stays", "goes"]) {
          const sandbox = hosts.addNetns();
          await fixture.run("ADD", { sandbox, containerId });
        }
        const sandbox = hosts.addNetns();
        await fixture.run("ADD", { sandbox, containerId: "elsewhere" }, {
          name: "net2",
          ipam: hosts.hostLocal("10.9.0.0/24"),
        });
        await fixture.run("GC", {}, { cniVersion: "1.1.0" });
        assertStringIncludes(fixture.rules(), "goes");
        await fixture.run("GC", {}, {
          cniVersion: "1.1.0",
          "cni.dev/valid-attachments": [
            { containerID: "stays", ifname: "eth0" },
          ],
        });
        assert(!fixture.rules().includes("goes"), fixture.rules());
        assertStringIncludes(fixture.rules(), "stays");
        assertStringIncludes(fixture.rules(), "elsewhere");
      });
    }
  },
);

testRules("ptp.check() notices a masquerade that is gone", async (t) => {
  const table = ["inet", "cni_plugins_masquerade"];
  const rows: [name: string, backend: string, tamper: string[]][] = [
    ["the element", "nftables", [
      ...["nft", "delete", "element"],
      ...[...table, "source_ip", "{ 10.1.2.2 }"],
    ]],
    ["the rules", "nftables", ["nft", "flush", "table", ...table]],
    ["the table", "nftables", ["nft", "delete", "table", ...table]],
    ["the rules of iptables", "iptables", [
      ..."iptables -t nat -F POSTROUTING".split(" "),
    ]],
  ];
  for (const [name, backend, [program = "", ...args]] of rows) {
    await t.step(name, async () => {
      using fixture = new Fixture(backend);
      const { json } = await fixture.run("ADD");
      runIn(fixture.hosts.host, program, ...args);
      const config = { ...fixture.config, prevResult: json };
      const checked = await fixture.hosts.run("ptp", "CHECK", config);
      assertEquals(checked.json?.code, 999, checked.stdout);
      assertStringIncludes(checked.json.msg, "The masquerade is gone");
    });
  }
});

testRules("ptp.add() refuses a backend that it does not know", async () => {
  using fixture = new Fixture("pf");
  const { hosts, config } = fixture;
  const output = await hosts.run("ptp", "ADD", config);
  assertEquals(output.json?.code, 7, output.stdout);
  assertStringIncludes(output.json.msg, "ipMasqBackend");
  assertEquals(hosts.leases(), []);
  await fixture.run("DEL");
});

testRules(
  "ptp ends masquerades of the Go plugin, and the other way round",
  async (t) => {
    await t.step("Go adds, we delete", async () => {
      using fixture = new Fixture();
      fixture.runGo("ADD");
      assertMatch(fixture.rules(), OWN);
      await fixture.run("DEL", { env: { CNI_NETNS: "" } });
      assert(!OWN.test(fixture.rules()), fixture.rules());
    });
    await t.step("Go adds, we check", async () => {
      using fixture = new Fixture("iptables");
      const { json: prevResult } = fixture.runGo("ADD");
      await fixture.run("CHECK", {}, { prevResult });
    });
    await t.step("we add, Go deletes", async () => {
      using fixture = new Fixture("iptables");
      const added = await fixture.run("ADD");
      assertMatch(fixture.rules(), OWN);
      fixture.runGo("CHECK", { prevResult: added.json });
      fixture.runGo("DEL", { prevResult: added.json });
      assert(!OWN.test(fixture.rules()), fixture.rules());
    });
    await t.step("both leave the same rules", async () => {
      using go = new Fixture("iptables");
      using ours = new Fixture("iptables");
      go.runGo("ADD");
      await ours.run("ADD");
      const save = ({ hosts }: Fixture): string[] =>
        ["iptables-save", "ip6tables-save"].flatMap((program) =>
          runIn(hosts.host, program, "-t", "nat").split("\n")
            .filter((line) => line.startsWith("-A"))
        );
      assertEquals(save(ours), save(go));
    });
  },
  needsGo,
);

testRules("ptp masquerades by the legacy iptables too", async () => {
  using fixture = new Fixture();
  const { host } = fixture.hosts;
  // As an older release, or the Go plugin, has left them on such a host.
  const chain = "CNI-" +
    (await sha512("net1test-container")).slice(0, 24);
  for (
    const args of [
      ["-N", chain],
      ["-A", chain, "-j", "MASQUERADE"],
      ["-A", "POSTROUTING", "-s", "10.1.2.2", "-j", chain],
    ]
  ) runIn(host, "iptables-legacy", "-t", "nat", ...args);
  await fixture.run("DEL");
  assertEquals(
    runIn(host, "iptables-legacy", "-t", "nat", "-S").includes(chain),
    false,
  );
}, needsLegacy());

function needsLegacy(): { ignore: boolean; suffix: string } {
  const works = hasCommand("iptables-legacy") &&
    !requireRoot("").ignore &&
    new Deno.Command("unshare", {
      args: ["-n", "iptables-legacy", "-t", "nat", "-S"],
      stderr: "null",
      stdout: "null",
    }).outputSync().success;
  return ignoreUnless(works, "needs the kernel's legacy iptables");
}
