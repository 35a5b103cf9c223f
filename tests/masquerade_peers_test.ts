/**
 * Masquerades across a change of plugins: what one side has attached the other
 * checks, detaches and collects, so that a node can go to these plugins and back.
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { bridgeConfig } from "../plugins/bridge/testing/bridge_network.ts";
import { rootTest } from "../testing/capabilities.ts";
import { dualStack } from "./_harness/dual_stack.ts";
import {
  type MakeConfig,
  MasqueradeScene,
} from "./_harness/masquerade_scene.ts";
import { OUTSIDE, reached } from "./_harness/outside.ts";
import { listPeers } from "./_harness/parity.ts";
import type { Peer } from "./_harness/peers.ts";
import { needsRuleTools } from "./_harness/rules.ts";

const TYPES: Readonly<Record<string, MakeConfig>> = {
  ptp: dualStack,
  bridge: bridgeConfig,
};

/** Text that only rules for the container contain. */
const OF_CONTAINER = /10\.1\.2\.|2001:db8:1:|test-container|CNI-/;

/** Creates a host on which plugins of both sides attach the same container. */
function makeScene(type: string, backend: string | undefined): MasqueradeScene {
  // In the newest version that all of them have.
  const makeConfig: MakeConfig = (hosts, extras) => ({
    ...TYPES[type]?.(hosts, { ...extras, isGateway: true }),
    cniVersion: "1.0.0",
  });
  return new MasqueradeScene(type, makeConfig, backend);
}

/** Asserts that no rule is left for the container. */
function assertWithoutRules({ rules }: MasqueradeScene): void {
  assert(!OF_CONTAINER.test(rules), rules);
}

/** Whether a peer knows nothing but iptables, so that our other rules outlive it. */
function hasIptablesOnly({ name }: Peer): boolean {
  return /^Go 1\.[0-5]\./.test(name);
}

for (const peer of listPeers("masquerade")) {
  for (const type of Object.keys(TYPES)) {
    for (const backend of [undefined, "nftables", "iptables"]) {
      const make = (): MasqueradeScene => makeScene(type, backend);
      const theirs = { who: peer };
      const test = (name: string, fn: () => Promise<void>): void =>
        rootTest(
          `${type} with ${
            backend ?? "no backend named"
          }, beside ${peer.name}: ${name}`,
          needsRuleTools,
          fn,
        );

      test("the Go plugin adds, this project's plugin checks and deletes", async () => {
        using scene = make();
        const { json: prevResult } = await scene.succeed("ADD", {}, theirs);
        assertMatch(scene.rules, OF_CONTAINER);
        assertEquals(reached(scene.hosts.sandbox), OUTSIDE);
        await scene.succeed("CHECK", { prevResult });
        await scene.succeed("DEL", { prevResult });
        assertWithoutRules(scene);
      });

      test("the Go plugin adds, this project's GC removes", async () => {
        using scene = make();
        await scene.succeed("ADD", {}, theirs);
        const gc = { cniVersion: "1.1.0", "cni.dev/valid-attachments": [] };
        await scene.succeed("GC", gc);
        assertWithoutRules(scene);
      });

      if (hasIptablesOnly(peer) && backend === "nftables") {
        test("this project's plugin adds, the Go plugin deletes all but the rules, GC removes them", async () => {
          using scene = make();
          const { json: prevResult } = await scene.succeed("ADD");
          // A runtime calls again what has failed.
          await scene.run("DEL", { prevResult }, theirs);
          await scene.succeed("DEL", { prevResult }, theirs);
          assertMatch(scene.rules, OF_CONTAINER);
          const gc = { cniVersion: "1.1.0", "cni.dev/valid-attachments": [] };
          await scene.succeed("GC", gc);
          assertEquals(scene.rules, "");
        });
        continue;
      }

      test("this project's plugin adds, the Go plugin checks and deletes", async () => {
        using scene = make();
        const { json: prevResult } = await scene.succeed("ADD");
        assertMatch(scene.rules, OF_CONTAINER);
        await scene.succeed("CHECK", { prevResult }, theirs);
        await scene.succeed("DEL", { prevResult }, theirs);
        assertWithoutRules(scene);
      });
    }
  }
}
