/**
 * Tools for the rows of several lists.
 *
 * @module
 */

import { assertEquals, assertThrows } from "@std/assert";
import type { Environment } from "../../base/process/environment.ts";
import { CniError } from "../../base/error.ts";
import type { DispatchInput } from "../../cni/call/context.ts";
import type { Call, Plugin } from "../../cni/plugin.ts";
import type { Row } from "../_harness/conformance.ts";
import {
  assertFailure,
  ENV,
  type Operation,
  type Outcome,
  recorder,
  run,
} from "../_harness/recorder.ts";

/** Builds a row of each line of a table. */
export function expand<const T>(
  table: readonly T[],
  row: (line: T) => readonly [name: string, row: Row],
): Record<string, Row> {
  return Object.fromEntries(table.map(row));
}

/** The expected text of a failure. */
export interface Failure {
  readonly code: number;
  readonly msg?: string;
  readonly details?: string;
}

/** Runs what must throw; answers what the runtime would be shown. */
export function failureOf(fail: () => unknown): Failure {
  const { cniVersion: _, ...failure } = assertThrows(fail, CniError)
    .toObject("");
  return failure;
}

/** The outcome of a call of the recorder. */
export interface Recorded extends Outcome {
  /** Its commands, in order. */
  readonly operations: readonly Operation[];
  /** Its input. */
  readonly calls: readonly Call[];
}

/** Calls a plugin that records. */
export async function record(
  env: Environment,
  config: unknown,
  extras: Partial<Plugin> = {},
  more: Partial<DispatchInput> = {},
): Promise<Recorded> {
  const { plugin, calls } = recorder(extras);
  const outcome = await run(plugin, env, config, more);
  return {
    ...outcome,
    operations: calls.map(([operation]) => operation),
    calls: calls.map(([, call]) => call),
  };
}

/** Builds a row: such a call is refused, and reaches no operation. */
export function refuses(
  env: Environment,
  config: unknown,
  failure: Failure,
  extras: Partial<Plugin> = {},
): Row {
  return async () => {
    const outcome = await record({ ...ENV, ...env }, config, extras);
    assertFailure(outcome, failure);
    assertEquals(outcome.operations, []);
  };
}
