/**
 * REPAIR: restores what CHECK finds missing, and runs CHECK again.
 *
 * @module
 */

import {
  CniError,
  describeError,
  ErrorCode,
  toCniError,
} from "../../base/error.ts";
import type { MaybePromise } from "../../base/waiting.ts";
import type { Call, Plugin } from "../plugin.ts";
import { splitDifferences } from "./differences.ts";
import { REPAIR_SANDBOX } from "./variables.ts";

/** The answer of REPAIR, as JSON. */
export interface RepairReport {
  /** What CHECK found before, and no longer finds. */
  readonly repaired: readonly string[];
  /** What CHECK still finds. */
  readonly remaining: readonly string[];
  /** Why something could not be made again. */
  readonly error?: string;
}

/**
 * Repairs an attachment, unless CHECK finds nothing.
 *
 * @param call The call of CHECK
 * @returns The output: a {@linkcode RepairReport}
 * @throws {CniError} 7 without prevResult, 8 if the namespace is gone
 */
export async function repair(plugin: Plugin, call: Call): Promise<string> {
  if (call.prevResult === undefined) {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      "Cannot repair an attachment without prevResult",
    );
  }
  const before = await findDifferences(plugin, call);
  if (before.length === 0 || plugin.repair === undefined) {
    return format(call, { repaired: [], remaining: before });
  }
  const sandbox = call.context.env[REPAIR_SANDBOX] === "1";
  const failure = await tryRepair(() => plugin.repair?.(call, { sandbox }));
  const remaining = await findDifferences(plugin, call);
  const left = new Set(remaining);
  const repaired = before.filter((text) => !left.has(text));
  return format(call, {
    repaired,
    remaining,
    ...failure !== undefined && { error: failure },
  });
}

function format({ cniVersion }: Call, report: RepairReport): string {
  return JSON.stringify({ cniVersion, ...report }) + "\n";
}

/** Returns what CHECK finds. */
async function findDifferences(plugin: Plugin, call: Call): Promise<string[]> {
  try {
    await plugin.check?.(call);
    return [];
  } catch (error) {
    if (toCniError(error).code === ErrorCode.InvalidNetns) throw error;
    return splitDifferences(error).map(({ msg }) => msg);
  }
}

/** Returns why a repair has failed. */
async function tryRepair(
  run: () => MaybePromise<void>,
): Promise<string | undefined> {
  try {
    await run();
    return undefined;
  } catch (error) {
    return describeError(error);
  }
}
