/**
 * Follows the path of a packet step by step, by what the kernel and the cache hold,
 * until it ends. It sends nothing.
 *
 * @module
 */

import type { Node } from "../node.ts";
import { CONTAINER_STEPS } from "./container_steps.ts";
import { HOST_STEPS } from "./host_steps.ts";
import { LEAVES, Path, type Start, type Step, type Stop } from "./endpoint.ts";

/** All steps, in the order of the path. */
export const STEPS: readonly Step[] = [...CONTAINER_STEPS, ...HOST_STEPS];

/** A step at which packets end, or take a different interface. */
export interface PathStop extends Stop {
  /** Name of the step. */
  readonly step: string;
}

/**
 * Lists the steps at which packets end, or take a different interface.
 *
 * @param isWhole Whether to run the steps behind the first one at which packets end
 * @throws {SyscallError} If the namespace cannot be opened
 */
export async function listStops(
  node: Node,
  start: Start,
  steps: readonly Step[] = STEPS,
  { isWhole = false }: { readonly isWhole?: boolean } = {},
): Promise<PathStop[]> {
  using path = new Path(node, start);
  const found: PathStop[] = [];
  for (const { name, run } of steps) {
    node.signal.throwIfAborted();
    const outcome = await run(path);
    if (outcome === LEAVES) break;
    if (outcome === undefined) continue;
    found.push({ step: name, ...outcome });
    if (!isWhole || outcome.takes !== undefined) break;
  }
  return found;
}
