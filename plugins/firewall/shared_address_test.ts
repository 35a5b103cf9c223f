import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import type { CallOptions } from "../../testing/test_hosts.ts";
import {
  FakeFirewalld,
  needsBus,
} from "../../tests/_harness/fake_firewalld.ts";
import { FirewallScene } from "./testing.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { needsInetRules, needsRuleTools } from "../../tests/_harness/rules.ts";

/** A host with containers that have the same addresses. */
class SharedAddresses extends FirewallScene {
  readonly firewalld: FakeFirewalld | undefined;

  constructor(backend: string, firewalld?: FakeFirewalld) {
    super({ backend, ingressPolicy: "same-bridge" });
    this.firewalld = firewalld;
  }

  /** Returns the options of calls for a container in a namespace of its own. */
  addContainer(containerId: string): CallOptions {
    return { sandbox: this.hosts.addNetns(), containerId };
  }

  /** Runs a command that must succeed. */
  async call(
    command: string,
    container: CallOptions,
    keys: Keys = {},
  ): Promise<void> {
    const { prevResult, firewalld } = this;
    const env = firewalld?.env ?? {};
    await this.succeed(command, { prevResult, ...keys }, { ...container, env });
  }

  /** Returns an environment in which ip6tables fails. */
  async brokenPrograms(): Promise<Record<string, string>> {
    const program = `${this.hosts.directory}/ip6tables`;
    const text = "#!/bin/sh\necho no rules today >&2; exit 1\n";
    await Deno.writeTextFile(program, text, { mode: 0o755 });
    const PATH = `${this.hosts.directory}:/usr/sbin:/usr/bin:/sbin:/bin`;
    return { PATH };
  }

  /** Asserts that nothing of the addresses is left. */
  assertEmpty(): void {
    const sources = this.firewalld?.sources.size ?? 0;
    assertEquals([this.ownRules, this.table, sources], [[], "", 0]);
  }
}

/** Runs a test on a new host with each backend. */
function eachBackend(
  name: string,
  test: (scene: SharedAddresses) => Promise<void>,
): void {
  const needs = allOf(needsRuleTools, needsInetRules);
  rootTest(name, needs, async (t) => {
    for (const backend of ["iptables", "nftables"]) {
      await t.step(backend, async () => {
        using scene = new SharedAddresses(backend);
        await test(scene);
      });
    }
  });
  rootTest(`${name}, in firewalld`, allOf(needs, needsBus), async () => {
    const directory = await Deno.makeTempDir();
    {
      await using firewalld = await FakeFirewalld.start(directory);
      using scene = new SharedAddresses("firewalld", firewalld);
      await test(scene);
    }
    await Deno.remove(directory, { recursive: true });
  });
}

eachBackend(
  "firewall.del() keeps an address that other containers have",
  async (scene) => {
    const containers = ["first", "second", "third"]
      .map((one) => scene.addContainer(one));
    for (
      const order of [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1]]
    ) {
      for (const one of containers) await scene.call("ADD", one);
      const present = new Set(containers);
      for (const position of order) {
        for (const one of present) await scene.call("CHECK", one);
        const leaving = containers[position] ?? {};
        await scene.call("DEL", leaving);
        await scene.call("DEL", leaving);
        present.delete(leaving);
      }
      scene.assertEmpty();
    }
  },
);

eachBackend(
  "a failed firewall.add() keeps an address that another container has",
  async (scene) => {
    const owner = scene.addContainer("owner");
    const other = scene.addContainer("other");
    await scene.call("ADD", owner);
    const before = [scene.rules, scene.table];
    const { firewalld, prevResult } = scene;
    if (firewalld) firewalld.failure = "NOT_AUTHORIZED: no";
    const env = firewalld?.env ?? await scene.brokenPrograms();
    const { exitCode } = await scene.run("ADD", { prevResult }, {
      ...other,
      env,
    });
    if (firewalld) firewalld.failure = undefined;
    if (scene.config["backend"] === "iptables" || firewalld) {
      assertEquals([exitCode, scene.rules, scene.table], [1, ...before]);
    }
    await scene.call("CHECK", owner);
    await scene.call("DEL", other);
    await scene.call("CHECK", owner);
    await scene.call("DEL", owner);
    scene.assertEmpty();
  },
);

eachBackend(
  "firewall.gc() keeps an address that other containers have",
  async (scene) => {
    const owner = scene.addContainer("owner");
    const other = scene.addContainer("other");
    await scene.call("ADD", owner);
    await scene.call("ADD", other, { name: "net2" });
    const gc = { prevResult: undefined, "cni.dev/valid-attachments": [] };
    await scene.call("GC", {}, { ...gc, name: "net2" });
    await scene.call("CHECK", owner);
    await scene.call("ADD", other, { name: "net2" });
    await scene.call("GC", {}, gc);
    await scene.call("CHECK", other, { name: "net2" });
    await scene.call("DEL", other, { name: "net2" });
    scene.assertEmpty();
  },
);

eachBackend(
  "firewall.add() takes over the address of a dead container",
  async (scene) => {
    const dead = scene.addContainer("dead");
    await scene.call("ADD", dead);
    dead.sandbox?.[Symbol.dispose]();
    const next = scene.addContainer("next");
    await scene.call("ADD", next);
    await scene.call("CHECK", next);
    assert(!scene.table.includes("id: dead"), scene.table);
    // The runtime comes late with it.
    await scene.call("DEL", dead);
    await scene.call("CHECK", next);
    await scene.call("DEL", next);
    scene.assertEmpty();
  },
);

rootTest(
  "firewall.del() keeps the policy of a link that a container still uses",
  allOf(needsRuleTools, needsInetRules),
  async (t) => {
    for (const backend of ["iptables", "nftables"]) {
      await t.step(backend, async () => {
        using scene = new SharedAddresses(backend);
        const { hosts } = scene;
        const owner = scene.addContainer("owner");
        const other = scene.addContainer("other");
        const pairs: [string, CallOptions][] = [
          ["vetha", owner],
          ["vethb", other],
        ];
        for (const [name, { sandbox }] of pairs) {
          const add = `ip link add eth0 netns ${sandbox?.path} type veth`;
          runIn(hosts.host, "sh", "-ec", `${add} peer name ${name}`);
        }
        const [, inside] = scene.prevResult["interfaces"] as Keys[];
        const prevResult = {
          ...scene.prevResult,
          interfaces: [{ name: "vetha" }, inside],
        };
        await scene.call("ADD", owner, { prevResult });
        const ips = [{ address: "10.0.0.9/24" }];
        await scene.call("DEL", other, { prevResult: { ...prevResult, ips } });
        assertStringIncludes(scene.rules.join() + scene.table, "vetha");
        await scene.call("CHECK", owner, { prevResult });
        await scene.call("DEL", owner, { prevResult });
        scene.assertEmpty();
        assert(!scene.rules.join().includes("vetha"), scene.rules.join());
      });
    }
  },
);
