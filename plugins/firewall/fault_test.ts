/**
 * ADD that fails or is killed at any single step: nothing may be left of the
 * attachment, at the latest after DEL.
 */

import { assert, assertEquals } from "@std/assert";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import type { CallOutput } from "../../testing/test_hosts.ts";
import {
  Crash,
  eachStep,
  type FaultScene,
  testFaultsOfAdd,
} from "../../tests/_harness/fault_steps.ts";
import { FirewallScene } from "./testing.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { needsInetRules, needsRuleTools } from "../../tests/_harness/rules.ts";

/** A container behind a bridge with a policy. */
class Scene extends FirewallScene implements FaultScene {
  constructor(backend: string) {
    super({ backend, ingressPolicy: "isolated" });
  }

  /** The attachment's part of the host's rules. */
  override get state(): unknown {
    return [this.ownRules, this.table];
  }

  override run(command: string, extras: Keys = {}): Promise<CallOutput> {
    return super.run(command, { prevResult: this.prevResult, ...extras });
  }

  /** Kills ADD after some requests; reports whether ADD got that far. */
  async killAdd(requests: number): Promise<boolean> {
    using crash = new Crash(requests);
    await this.run("ADD");
    return crash.hasHappened;
  }
}

// The commits, and the generations and lists before them.
const BACKENDS = { nftables: 12, iptables: 4 };

if (!needsRuleTools.ignore && !needsInetRules.ignore) {
  for (const [backend, atLeast] of Object.entries(BACKENDS)) {
    const make = (): Scene => new Scene(backend);
    testFaultsOfAdd("firewall", ` (${backend})`, { make, atLeast });
  }
}

for (const [backend, atLeast] of Object.entries(BACKENDS)) {
  rootTest(
    `firewall recovers from a killed ADD (${backend})`,
    allOf(needsRuleTools, needsInetRules),
    async (t) => {
      const steps = await eachStep(t, async (step) => {
        using scene = new Scene(backend);
        const wasKilled = await scene.killAdd(step - 1);
        await scene.succeed("DEL", { prevResult: undefined });
        assertEquals(scene.state, [[], ""], "after DEL");

        await scene.killAdd(step - 1);
        await scene.succeed("ADD");
        await scene.succeed("CHECK");
        const env = { CNI_NETNS: "" };
        await scene.succeed("DEL", { prevResult: undefined }, { env });
        assertEquals(scene.state, [[], ""], "after ADD again and DEL");
        return wasKilled || undefined;
      });
      assert(steps.length >= atLeast, `only ${steps.length} steps`);
    },
  );
}
