/**
 * Follows the path of a packet step by step, by what the kernel and the cache hold,
 * until it ends. It sends nothing.
 *
 * @module
 */

import type { Node } from "../node.ts";
import { CONTAINER_STEPS } from "./container.ts";
import { HOST_STEPS } from "./host.ts";
import { LEAVES, Path, type Start, type Step, type Stop } from "./trip.ts";

/** All steps, in the order of the path. */
export const STEPS: readonly Step[] = [...CONTAINER_STEPS, ...HOST_STEPS];

/** A step at which packets end, or take a different interface. */
export interface Made extends Stop {
  /** Name of the step. */
  readonly step: string;
}

/**
 * Lists the steps at which packets end, or take a different interface.
 *
 * @param goesOn Whether to run the steps behind the first one, too
 * @throws {SyscallError} If the namespace cannot be opened
 */
export async function listEnds(
  node: Node,
  start: Start,
  steps: readonly Step[] = STEPS,
  { goesOn = false }: { readonly goesOn?: boolean } = {},
): Promise<Made[]> {
  using path = new Path(node, start);
  const found: Made[] = [];
  for (const { name, run } of steps) {
    node.signal.throwIfAborted();
    const outcome = await run(path);
    if (outcome === LEAVES) break;
    if (outcome === undefined) continue;
    found.push({ step: name, ...outcome });
    if (!goesOn || outcome.takes !== undefined) break;
  }
  return found;
}
