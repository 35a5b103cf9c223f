/**
 * Plugins that are killed: as on a node that ends badly.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import type { Random } from "./random.ts";
import type { Spawned } from "./spawn_in.ts";

/** An attachment whose plugin is killed. */
export interface Killed {
  /** Starts a command. */
  start(command: string): Spawned;
  /** Runs a command that must succeed. */
  succeed(command: string): Promise<unknown>;
  /** Lists what there is that an attachment leaves behind. */
  leftovers(): unknown;
}

/** How often, and when. */
export interface Kills {
  readonly random: Random;
  /** How many operations are killed. */
  readonly count: number;
  /** When at the latest, in ms. */
  readonly longestMs: number;
  /** Runs after each kill; nothing if undefined. */
  readonly afterKill?: () => Promise<unknown>;
}

/**
 * Kills ADD and DEL by turns, at any moment. Each time DEL follows, after which
 * there must be what there was before.
 */
export async function killByTurns(
  killed: Killed,
  { random, count, longestMs, afterKill }: Kills,
): Promise<void> {
  const before = killed.leftovers();
  for (let kill = 0; kill < count; kill++) {
    const command = kill % 2 === 0 ? "ADD" : "DEL";
    if (command === "DEL") await killed.succeed("ADD");
    const operation = killed.start(command);
    const ms = random.below(longestMs);
    await new Promise((resolve) => setTimeout(resolve, ms));
    operation.kill();
    await operation.output;
    await afterKill?.();
    await killed.succeed("DEL");
    const what = `${command} ${kill}, after ${ms} ms`;
    assertEquals(killed.leftovers(), before, what);
  }
}
