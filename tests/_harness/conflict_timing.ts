/**
 * How much longer ADD takes with `conflictCheck` if no other machine has an address.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import type { ConflictScene, ConflictTests } from "./conflict_cases.ts";
import { needsBin, startPlugin } from "./executables.ts";
import type { Keys } from "./plugin_scene.ts";
import { isLong } from "./repetition.ts";

/** How many pairs of calls are measured, with and without the check. */
const PAIRS = 30;
/** How many pairs come first, and do not count. */
const WARM_UP = 3;
/** How much longer ADD may take in the median, in ms. */
const MOST_MS = 250;

const SUBNETS = {
  IPv4: ["10.1.2.0/24"],
  IPv6: ["2001:db8:1::/64"],
  both: ["10.1.2.0/24", "2001:db8:1::/64"],
};

/**
 * Registers a measurement with executables. It needs a machine that does nothing else,
 * so it runs only if `CNI_STRESS` is set.
 */
export function testConflictTiming(
  type: string,
  { needs, make }: Pick<ConflictTests, "needs" | "make">,
): void {
  if (!isLong) return;
  for (const [families, subnets] of Object.entries(SUBNETS)) {
    const name =
      `${type}.add() takes at most ${MOST_MS} ms longer, ${families}`;
    rootTest(name, allOf(needs, needsBin), async () => {
      using conflict = make({});
      const { hosts } = conflict.scene;
      const keys = { ipam: hosts.hostLocal(...subnets) };
      const differences: number[] = [];
      const bases: number[] = [];
      for (let pair = -WARM_UP; pair < PAIRS; pair++) {
        const base = await measure(conflict, { ...keys, conflictCheck: false });
        const checked = await measure(conflict, {
          ...keys,
          conflictCheck: true,
        });
        if (pair < 0) continue;
        bases.push(base);
        differences.push(checked - base);
      }
      const median = medianOf(differences);
      console.log(
        `${type}, ${families}: ADD ${medianOf(bases).toFixed(0)} ms; ` +
          `checked ${median.toFixed(0)} ms more, ` +
          `${Math.max(...differences).toFixed(0)} at most, ${PAIRS} pairs`,
      );
      assert(median <= MOST_MS, `${median} ms`);
    });
  }
}

/** Attaches and detaches a container. Returns how long ADD took, in ms. */
async function measure(
  { scene: { hosts, config } }: ConflictScene,
  keys: Keys,
): Promise<number> {
  const call = {
    type: String(config["type"]),
    config: { ...config, ...keys },
  };
  const start = performance.now();
  const added = await startPlugin(hosts, { ...call, command: "ADD" }).output;
  const tookMs = performance.now() - start;
  assertEquals(added.code, 0, added.stdout);
  const prevResult = JSON.parse(added.stdout);
  const removed = await startPlugin(hosts, {
    ...call,
    command: "DEL",
    config: { ...call.config, prevResult },
  }).output;
  assertEquals(removed.code, 0, removed.stdout);
  return tookMs;
}

function medianOf(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.floor(sorted.length / 2)] ?? NaN;
}
