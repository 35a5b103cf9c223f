/**
 * ADD that fails at any single step, and ADD and DEL that end there: nothing
 * may be left, or only things that DEL still finds.
 */

import { assert, assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import {
  Crash,
  eachStep,
  testFaultsOfAdd,
} from "../../tests/_harness/fault_steps.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { IP4, IP6, SbrScene } from "./testing.ts";
import { ETH0, IPV6, NET1 } from "../../tests/_harness/two_networks.ts";

/** Creates a scene with every kind of route. */
function sceneWith(extras: Keys): SbrScene {
  return new SbrScene([
    ...ETH0,
    ...NET1,
    ...IPV6,
    "address add 192.168.101.209/24 dev net1",
    "route add 172.16.0.0/12 dev net1 metric 5",
    "route add default via 192.168.1.3 metric 7",
    // The kernel merges it with eth0's route; only a part of that one moves.
    "route append default via 2001:db8:1::3 dev net1",
  ], {
    ips: [
      IP4,
      { address: "192.168.101.209/24" },
      { address: IP6.address },
    ],
    routes: [
      { dst: "0.0.0.0/0", gw: "192.168.1.3", priority: 7 },
      { dst: "::/0", gw: "2001:db8:1::3" },
    ],
    ...extras,
  });
}

const VARIANTS: Readonly<Record<string, Keys>> = {
  "tables of its own": {},
  "gateways": { gateways: ["192.168.1.254", "2001:db8:1::254"] },
  "source hints": { addSourceHints: true },
  "a given table": { table: 5000 },
};

/** Returns the states before ADD and after an undisturbed ADD. */
async function statesOf(extras: Keys): Promise<Record<State, string[]>> {
  using scene = sceneWith(extras);
  const before = scene.state;
  await scene.succeed("ADD");
  return { before, added: scene.state };
}

type State = "before" | "added";

/** Minimum number of steps. */
function leastSteps(extras: Keys): number {
  return "table" in extras ? 2 : 12;
}

for (const [variant, extras] of Object.entries(VARIANTS)) {
  testFaultsOfAdd("sbr", `: ${variant}`, {
    make: () => sceneWith(extras),
    atLeast: leastSteps(extras),
    added: async () => (await statesOf(extras)).added,
  });
}

/** Starts an operation and ends it after a step. */
async function crashAfter(
  scene: SbrScene,
  command: string,
  step: number,
): Promise<boolean> {
  using crash = new Crash(step, ["request", "requestEach"]);
  await scene.run(command);
  return crash.hasHappened;
}

/**
 * Registers a test of an operation that ends after each of its steps.
 *
 * @param work Reports whether the operation got that far
 */
function testCrashes(
  command: string,
  work: (
    scene: SbrScene,
    step: number,
    states: Record<State, string[]>,
  ) => Promise<boolean>,
): void {
  for (const [variant, extras] of Object.entries(VARIANTS)) {
    const name = `sbr.del() and sbr.add() get over ${command} that ended`;
    rootTest(`${name}: ${variant}`, async (t) => {
      const states = await statesOf(extras);
      const { length } = await eachStep(t, async (step) => {
        using scene = sceneWith(extras);
        return await work(scene, step, states) || undefined;
      });
      assert(length >= leastSteps(extras), `only ${length} steps`);
    });
  }
}

testCrashes("an ADD", async (scene, step, { before, added }) => {
  const hasEnded = await crashAfter(scene, "ADD", step);
  await scene.succeed("DEL");
  assertEquals(scene.state, before, "DEL");
  await crashAfter(scene, "ADD", step);
  await scene.succeed("ADD");
  assertEquals(scene.state, added, "ADD");
  await scene.succeed("CHECK");
  await scene.succeed("DEL");
  assertEquals(scene.state, before, "DEL after ADD");
  return hasEnded;
});

testCrashes("a DEL", async (scene, step, { before, added }) => {
  await scene.succeed("ADD");
  const hasEnded = await crashAfter(scene, "DEL", step);
  await scene.succeed("ADD");
  assertEquals(scene.state, added, "ADD");
  await crashAfter(scene, "DEL", step);
  await scene.succeed("DEL");
  assertEquals(scene.state, before, "DEL");
  return hasEnded;
});
