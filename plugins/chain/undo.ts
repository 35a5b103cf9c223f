/**
 * Undoes the plugins of a chain.
 *
 * @module
 */

import { deadline } from "../../base/deadline.ts";
import { CniError, describeError } from "../../base/error.ts";
import { UNDO_MS } from "../../base/rollback.ts";
import { delPlugins, PREV_RESULT_SINCE } from "../../libcni/del.ts";
import {
  describeFailedPlugin,
  mayHaveVersion,
} from "../../libcni/operation.ts";
import type { Steps } from "../../libcni/steps.ts";
import type { ChainInput } from "./chain_input.ts";
import { findLeft, RunningAdd } from "./running_add.ts";

/**
 * Runs DEL of the plugins that must be undone, in reverse order.
 *
 * @throws {PluginFailure} Or an AggregateError of several failures; the other plugins
 * have run, and the addresses are kept
 */
export async function removeLeft(
  { tools, network, conf, options }: ChainInput,
  steps: Steps,
  signal: AbortSignal | undefined,
): Promise<void> {
  const result = mayHaveVersion(network, PREV_RESULT_SINCE)
    ? steps.result
    : undefined;
  await delPlugins(tools, network, conf, {
    prevResult: result ?? options.prevResult,
    continueOnDelErrors: true,
    steps,
    signal,
  });
}

/**
 * Undoes a failed ADD.
 *
 * @returns The error of ADD; its details name the plugins that could not be undone
 */
export async function undoAdd(
  input: ChainInput,
  steps: Steps,
  error: unknown,
): Promise<unknown> {
  try {
    await removeLeft(input, steps, deadline(UNDO_MS));
    return error;
  } catch (failure) {
    const { code, message, details } = describeFailedPlugin(error);
    const left = `not undone: ${describeError(failure)}`;
    return new CniError(code, message, {
      details: [details, left].filter((text) => text !== "").join("; "),
    });
  }
}

/**
 * Starts an ADD after undoing an earlier ADD of the same attachment.
 *
 * @throws {PluginFailure} If a plugin cannot be undone; it stays recorded
 * @throws {CniError} 11 if a process of the earlier ADD is still running
 */
export async function beginAfterEarlier(
  input: ChainInput,
): Promise<RunningAdd> {
  const { recorded } = input;
  {
    using left = await findLeft(recorded, "add");
    if (left !== undefined) {
      await removeLeft(input, left.steps, recorded.signal);
      left.remove();
    }
  }
  return RunningAdd.begin(recorded) ?? RunningAdd.withoutRecord(recorded);
}
