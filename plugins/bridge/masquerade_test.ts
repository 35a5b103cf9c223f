import { assert, assertEquals, assertMatch } from "@std/assert";
import {
  assertSuccess,
  bridgeConfig,
} from "../../tests/_harness/bridge_network.ts";
import {
  hasCommand,
  ignoreUnless,
  requireRoot,
} from "../../tests/_harness/capabilities.ts";
import { canPing, runIn } from "../../tests/_harness/ip_json.ts";
import {
  connectOutside,
  OUTSIDE,
  reached,
} from "../../tests/_harness/outside.ts";
import {
  type CallOptions,
  type CallOutput,
  TestHosts,
} from "../../tests/_harness/test_hosts.ts";

const needsTools = ignoreUnless(
  hasCommand("nft") && hasCommand("iptables"),
  "needs nft and iptables",
);

function test(name: string, fn: (t: Deno.TestContext) => Promise<void>): void {
  const root = requireRoot(name + needsTools.suffix);
  Deno.test({ name: root.name, ignore: root.ignore || needsTools.ignore, fn });
}

/** A throw-away host with something to reach. */
class Fixture implements Disposable {
  readonly hosts = TestHosts.create();
  readonly outside = connectOutside(this.hosts);
  readonly config: Record<string, unknown>;

  constructor(ipMasqBackend?: string) {
    this.config = bridgeConfig(this.hosts, { ipMasq: true, ipMasqBackend });
  }

  async run(
    command: string,
    extras: Record<string, unknown> = {},
    options: CallOptions = {},
  ): Promise<CallOutput> {
    const config = { ...this.config, ...extras };
    const output = await this.hosts.run("bridge", command, config, options);
    assertSuccess(output);
    return output;
  }

  /** Lists all rules of the host, of both programs. */
  rules(): string {
    const { host } = this.hosts;
    return runIn(host, "nft", "list", "ruleset") +
      runIn(host, "iptables-save") + runIn(host, "ip6tables-save");
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

test("bridge.add() masquerades by each backend, and DEL ends it", async (t) => {
  for (const backend of [undefined, "nftables", "iptables"]) {
    await t.step(backend ?? "none asked for", async () => {
      using fixture = new Fixture(backend);
      const { sandbox } = fixture.hosts;
      const { json: prevResult } = await fixture.run("ADD");
      assertEquals(reached(sandbox), [...OUTSIDE]);
      assertMatch(fixture.rules(), /test-container/);
      await fixture.run("STATUS");
      await fixture.run("CHECK", { prevResult });
      await fixture.run("DEL", { prevResult }, { env: { CNI_NETNS: "" } });
      assert(!/test-container|CNI-/.test(fixture.rules()), fixture.rules());
    });
  }
});

test("bridge.add() does not masquerade unless it is asked to", async () => {
  using fixture = new Fixture();
  await fixture.run("ADD", { ipMasq: false });
  assertEquals(reached(fixture.hosts.sandbox), []);
  assertEquals(fixture.rules(), "");
});

test("bridge.add() does not masquerade what containers send each other", async (t) => {
  for (const backend of ["nftables", "iptables"]) {
    await t.step(backend, async () => {
      using fixture = new Fixture(backend);
      const { hosts } = fixture;
      const other = hosts.addNetns();
      await fixture.run("ADD");
      await fixture.run("ADD", {}, { sandbox: other, containerId: "other" });
      // Whoever is masqueraded is not known by its own address.
      runIn(
        other,
        "iptables",
        "-A",
        "INPUT",
        "!",
        "-s",
        "10.1.2.2",
        "-j",
        "DROP",
      );
      assert(canPing(hosts.sandbox, "10.1.2.3"));
    });
  }
});

test("bridge.gc() ends the masquerades of attachments that are not valid", async (t) => {
  for (const backend of ["nftables", "iptables"]) {
    await t.step(backend, async () => {
      using fixture = new Fixture(backend);
      for (const containerId of ["stays", "goes"]) {
        const sandbox = fixture.hosts.addNetns();
        await fixture.run("ADD", {}, { sandbox, containerId });
      }
      const valid = [{ containerID: "stays", ifname: "eth0" }];
      await fixture.run("GC", { "cni.dev/valid-attachments": valid });
      const rules = fixture.rules();
      assert(rules.includes("stays") && !rules.includes("goes"), rules);
    });
  }
});
