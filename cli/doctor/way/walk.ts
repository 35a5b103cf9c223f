/**
 * Goes the way of a packet step by step, until it ends.
 *
 * @module
 */

import type { NodeAttachment } from "../../attachments/node_attachments.ts";
import { nameAttachment } from "../live.ts";
import type { Node, Patience } from "../node.ts";
import { CONTAINER_STEPS } from "./container.ts";
import { HOST_STEPS } from "./host.ts";
import {
  listStarts,
  type Outcome,
  type Start,
  type Step,
  Trip,
} from "./trip.ts";

/** All steps, in the order of the way. */
export const STEPS: readonly Step[] = [...CONTAINER_STEPS, ...HOST_STEPS];

/** A step that was made. */
export interface Made extends Outcome {
  /** Name of the step. */
  readonly step: string;
}

/** The way of a packet. */
export interface Way {
  /** Where it starts, such as `default/web eth0 10.1.0.2`. */
  readonly from: string;
  readonly interface: string;
  readonly address: string;
  readonly steps: readonly Made[];
  /** The step at which the packet ends; undefined if it arrives. */
  readonly endsAt: string | undefined;
}

/** How to go. */
export interface WalkOptions {
  /** The steps to make; all by default. */
  readonly steps?: readonly Step[];
  /** Whether to make the steps behind the one at which the packet ends. */
  readonly goesOn?: boolean;
}

/** How neighbours are asked by default. */
export const PATIENCE: Patience = { attempts: 3, timeoutMs: 1000 };

/**
 * Goes the ways of all addresses of a namespace.
 *
 * @param attachments Those of the namespace
 * @throws {SyscallError} If the namespace cannot be opened
 */
export async function walkAll(
  node: Node,
  netns: string,
  attachments: readonly NodeAttachment[],
  patience: Patience = PATIENCE,
  options: WalkOptions = {},
): Promise<Way[]> {
  const ways: Way[] = [];
  for (const start of listStarts(netns, attachments)) {
    ways.push(await walk(node, start, patience, options));
  }
  return ways;
}

async function walk(
  node: Node,
  start: Start,
  patience: Patience,
  { steps: all = STEPS, goesOn = false }: WalkOptions,
): Promise<Way> {
  const { attachment, ifName, address } = start;
  using trip = new Trip(node, start, patience);
  const steps: Made[] = [];
  for (const { name, run } of all) {
    node.signal.throwIfAborted();
    const outcome = await run(trip);
    if (outcome === undefined) continue;
    steps.push({ step: name, ...outcome });
    if (outcome.state === "end" && !goesOn) break;
    if (outcome.state === "leaves") break;
  }
  return {
    from: `${
      attachment === undefined ? ifName : nameAttachment(attachment)
    } ${address.ip}`,
    interface: ifName,
    address: `${address}`,
    steps,
    endsAt: steps.find(({ state }) => state === "end")?.step,
  };
}
