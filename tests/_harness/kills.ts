/**
 * Plugins that are killed: as on a node that ends badly.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import type { Random } from "./repetition.ts";
import type { Spawned } from "./spawn_in.ts";

/** An attachment with a plugin that is killed. */
export interface Killed {
  /** Starts a command. */
  start(command: string): Spawned;
  /** Runs a command that must succeed. */
  succeed(command: string): Promise<unknown>;
  /** Lists what there is that an attachment leaves behind. */
  remains(): unknown;
}

/** Options of the test. */
export interface Kills {
  readonly random: Random;
  /** How many operations are killed. */
  readonly count: number;
  /** Runs after each kill; nothing if undefined. */
  readonly afterKill?: () => Promise<unknown>;
}

/**
 * Kills ADD and DEL by turns, at any moment of what they take on this machine.
 * Each time DEL follows, after which there must be what there was before.
 */
export async function killByTurns(
  killed: Killed,
  { random, count, afterKill }: Kills,
): Promise<void> {
  const before = killed.remains();
  const addMs: number[] = [];
  const add = async (): Promise<void> => {
    const startMs = performance.now();
    await killed.succeed("ADD");
    addMs.push(performance.now() - startMs);
  };
  await add();
  await killed.succeed("DEL");
  for (let kill = 0; kill < count; kill++) {
    const command = kill % 2 === 0 ? "ADD" : "DEL";
    if (command === "DEL") await add();
    const operation = killed.start(command);
    const ms = random.below(Math.max(...addMs.slice(-4)));
    await new Promise((resolve) => setTimeout(resolve, ms));
    operation.kill();
    await operation.output;
    await afterKill?.();
    await killed.succeed("DEL");
    const what = `${command} ${kill}, after ${ms} ms`;
    assertEquals(killed.remains(), before, what);
  }
}
