/**
 * Masquerades across a change of plugins: what one side has attached the other
 * checks, detaches and collects, so that a node can go to these plugins and back.
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { bridgeConfig } from "../plugins/bridge/testing/bridge_network.ts";
import { rootTest } from "../testing/capabilities.ts";
import { dualStack } from "./_harness/dual_stack.ts";
import { runIn } from "../testing/ip_json.ts";
import {
  type MakeConfig,
  MasqueradeScene,
} from "./_harness/masquerade_scene.ts";
import { OUTSIDE, reached } from "./_harness/outside.ts";
import { listPeers } from "./_harness/parity.ts";
import type { Peer } from "./_harness/peers.ts";
import type { Keys } from "./_harness/plugin_scene.ts";
import { needsRuleTools } from "./_harness/rules.ts";
import type { CallOutput } from "../testing/test_hosts.ts";

const TYPES: Readonly<Record<string, MakeConfig>> = {
  ptp: dualStack,
  bridge: bridgeConfig,
};

/** Text that only rules for the container contain. */
const OF_CONTAINER = /10\.1\.2\.|2001:db8:1:|test-container|CNI-/;

/** A host on which plugins of both sides attach the same container. */
class SharedScene extends MasqueradeScene {
  readonly #peer: Peer;
  readonly #type: string;

  constructor(peer: Peer, type: string, backend: string | undefined) {
    // In the newest version that all of them have.
    const makeConfig: MakeConfig = (hosts, extras) => ({
      ...TYPES[type]?.(hosts, { ...extras, isGateway: true }),
      cniVersion: "1.0.0",
    });
    super(type, makeConfig, backend);
    this.#peer = peer;
    this.#type = type;
    // Go's plugins wait for it, and nothing here depends on it.
    for (const netns of [this.hosts.host, this.hosts.sandbox]) {
      runIn(netns, "sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0");
    }
  }

  /** Runs the peer's plugin. */
  callPeer(command: string, extras: Keys = {}): CallOutput {
    const { directory } = this.#peer;
    const config = { ...this.config, ...extras };
    const env = { CNI_PATH: directory };
    const path = `${directory}/${this.#type}`;
    return this.hosts.exec(path, command, config, { env });
  }

  /** Runs the peer's plugin, which must succeed. */
  succeedAsPeer(command: string, extras: Keys = {}): CallOutput {
    const output = this.callPeer(command, extras);
    assertEquals(output.exitCode, 0, output.stdout + output.stderr);
    return output;
  }

  /** Asserts that no rule is left for the container. */
  assertWithoutRules(): void {
    const { rules } = this;
    assert(!OF_CONTAINER.test(rules), rules);
  }
}

/** Whether a peer knows nothing but iptables, so that our other rules outlive it. */
function hasIptablesOnly({ name }: Peer): boolean {
  return /^Go 1\.[0-5]\./.test(name);
}

for (const peer of listPeers("masquerade")) {
  for (const type of Object.keys(TYPES)) {
    for (const backend of [undefined, "nftables", "iptables"]) {
      const make = (): SharedScene => new SharedScene(peer, type, backend);
      const test = (name: string, fn: () => Promise<void>): void =>
        rootTest(
          `${type} with ${
            backend ?? "no backend named"
          }, beside ${peer.name}: ${name}`,
          needsRuleTools,
          fn,
        );

      test("Go adds, we check and delete", async () => {
        using scene = make();
        const { json: prevResult } = scene.succeedAsPeer("ADD");
        assertMatch(scene.rules, OF_CONTAINER);
        assertEquals(reached(scene.hosts.sandbox), OUTSIDE);
        await scene.succeed("CHECK", { prevResult });
        await scene.succeed("DEL", { prevResult });
        scene.assertWithoutRules();
      });

      test("Go adds, we collect", async () => {
        using scene = make();
        scene.succeedAsPeer("ADD");
        const gc = { cniVersion: "1.1.0", "cni.dev/valid-attachments": [] };
        await scene.succeed("GC", gc);
        scene.assertWithoutRules();
      });

      if (hasIptablesOnly(peer) && backend === "nftables") {
        test("we add, Go deletes all but the rules, we collect", async () => {
          using scene = make();
          const { json: prevResult } = await scene.succeed("ADD");
          // A runtime calls again what has failed.
          scene.callPeer("DEL", { prevResult });
          scene.succeedAsPeer("DEL", { prevResult });
          assertMatch(scene.rules, OF_CONTAINER);
          const gc = { cniVersion: "1.1.0", "cni.dev/valid-attachments": [] };
          await scene.succeed("GC", gc);
          assertEquals(scene.rules, "");
        });
        continue;
      }

      test("we add, Go checks and deletes", async () => {
        using scene = make();
        const { json: prevResult } = await scene.succeed("ADD");
        assertMatch(scene.rules, OF_CONTAINER);
        scene.succeedAsPeer("CHECK", { prevResult });
        scene.succeedAsPeer("DEL", { prevResult });
        scene.assertWithoutRules();
      });
    }
  }
}
