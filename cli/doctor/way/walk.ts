/**
 * Goes the way of a packet step by step, by what the kernel and the cache hold, until
 * it ends. It sends nothing.
 *
 * @module
 */

import type { Node } from "../node.ts";
import { CONTAINER_STEPS } from "./container.ts";
import { HOST_STEPS } from "./host.ts";
import { type Outcome, type Start, type Step, Trip } from "./trip.ts";

/** All steps, in the order of the way. */
export const STEPS: readonly Step[] = [...CONTAINER_STEPS, ...HOST_STEPS];

/** A step that was made. */
export interface Made extends Outcome {
  /** Name of the step. */
  readonly step: string;
}

/**
 * Lists the steps at which packets end, or take another interface.
 *
 * @param goesOn Whether to make the steps behind the first one, too
 * @throws {SyscallError} If the namespace cannot be opened
 */
export async function listEnds(
  node: Node,
  start: Start,
  steps: readonly Step[] = STEPS,
  { goesOn = false }: { readonly goesOn?: boolean } = {},
): Promise<Made[]> {
  using trip = new Trip(node, start);
  const ends: Made[] = [];
  for (const { name, run } of steps) {
    node.signal.throwIfAborted();
    const outcome = await run(trip);
    const isEnd = outcome?.state === "end" || outcome?.takes !== undefined;
    if (outcome !== undefined && isEnd) ends.push({ step: name, ...outcome });
    if (outcome?.state === "leaves" || isEnd && !goesOn) break;
  }
  return ends;
}
