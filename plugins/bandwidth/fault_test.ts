/**
 * ADD that fails or is killed at any single step: nothing may be left, at the
 * latest after DEL.
 */

import { assert, assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import {
  Crash,
  eachStep,
  type FaultScene,
  testFaultsOfAdd,
} from "../../tests/_harness/fault_steps.ts";
import { runIn } from "../../testing/ip_json.ts";
import { type HostLimits, LimitedPair, WIDE } from "./testing/limited_pair.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { type CallOutput, TestHosts } from "../../testing/test_hosts.ts";

const SUBNETS = { unshapedSubnets: ["10.0.0.0/8", "2001:db8::/32"] };

/** The state before, and the configuration. */
interface Scenario {
  readonly before: readonly string[];
  readonly keys: Keys;
  /** Minimum number of steps of ADD. */
  readonly atLeast: number;
}

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  "all traffic": { before: [], keys: WIDE, atLeast: 9 },
  "some subnets": { before: [], keys: { ...WIDE, ...SUBNETS }, atLeast: 21 },
  "beside another program": {
    before: ["tc qdisc add dev host-veth clsact"],
    keys: WIDE,
    atLeast: 9,
  },
};

/** A veth pair without limits. */
class PairScene implements FaultScene {
  readonly #hosts = TestHosts.create();
  readonly pair = new LimitedPair(this.#hosts);
  readonly #keys: Keys;

  constructor({ before, keys }: Scenario) {
    this.#keys = keys;
    for (const command of before) {
      const [program = "", ...args] = command.split(" ");
      runIn(this.#hosts.host, program, ...args);
    }
  }

  get state(): HostLimits {
    return this.pair.limits();
  }

  run(command: string, extras: Keys = {}): Promise<CallOutput> {
    return this.pair.run(command, { ...this.#keys, ...extras });
  }

  /** Kills ADD after some requests; reports whether ADD got that far. */
  async killAdd(requests: number): Promise<boolean> {
    using crash = new Crash(requests);
    await this.run("ADD");
    return crash.hasHappened;
  }

  [Symbol.dispose](): void {
    this.#hosts[Symbol.dispose]();
  }
}

for (const [name, scenario] of Object.entries(SCENARIOS)) {
  testFaultsOfAdd("bandwidth", `: ${name}`, {
    make: () => new PairScene(scenario),
    atLeast: scenario.atLeast,
  });

  rootTest(`bandwidth recovers from a killed ADD: ${name}`, async (t) => {
    const steps = await eachStep(t, (step) => addAndKill(scenario, step));
    assert(steps.length >= scenario.atLeast, `only ${steps.length} steps`);
  });
}

/** @returns Whether ADD got that far; undefined if not */
async function addAndKill(
  scenario: Scenario,
  step: number,
): Promise<true | undefined> {
  using scene = new PairScene(scenario);
  const { pair, state } = scene;
  const wasKilled = await scene.killAdd(step - 1);
  assertEquals((await scene.run("DEL")).exitCode, 0);
  assertEquals(scene.state, state, "after DEL");

  await scene.killAdd(step - 1);
  const prevResult = await pair.add(scenario.keys);
  const checked = await scene.run("CHECK", { prevResult });
  assertEquals(checked.stdout, "", "after ADD again");
  assertEquals((await scene.run("DEL", { prevResult })).exitCode, 0);
  assertEquals(scene.state, state, "after ADD again and DEL");

  await scene.killAdd(step - 1);
  const env = { CNI_NETNS: "/run/netns/none" };
  await pair.run("DEL", scenario.keys, { env });
  const left = scene.state.links;
  assertEquals(left, ["lo", "host-veth"], "without the sandbox");
  return wasKilled || undefined;
}
