/**
 * Thick multus's protocol in the daemon: its requests run as the daemon's calls.
 *
 * @module
 */

import type { Environment } from "../../../base/process/environment.ts";
import { CniError, describeError, ErrorCode } from "../../../base/error.ts";
import type { PluginLookup } from "../../../cni/invoke/in_process.ts";
import {
  isObject,
  type JsonObject,
  parseJson,
} from "../../../base/json/json.ts";
import type { OpenCluster } from "../pod/cluster.ts";
import type { RunningDaemon } from "../../../daemon/server/daemon.ts";
import { type ThickCall, ThickHandler } from "./handler.ts";

/** Options of {@linkcode answerThick}. */
export interface ThickServiceOptions {
  /** Finds multus. */
  readonly lookup: PluginLookup;
  /** The daemon's environment. */
  readonly env: Environment;
  /** The daemon's own configuration. */
  readonly overlay: JsonObject;
  /** Receives log text of multus. */
  readonly onStderr: (text: string) => void;
  /** Opens the cluster of a hot-plug call. */
  readonly openCluster?: OpenCluster | undefined;
}

/**
 * Answers a request of the protocol.
 *
 * @returns Undefined for any other request
 */
export function answerThick(
  request: Request,
  { calls, isEnding, caller }: RunningDaemon,
  { lookup, env, overlay, onStderr, openCluster }: ThickServiceOptions,
): Promise<Response> | undefined {
  const run = async ({ hotPlug, ...call }: ThickCall): Promise<
    { stdout: string; exitCode: 0 | 1 }
  > => {
    const { createHotPlug } = await import(
      "../hot_plug.ts"
    );
    const plugin = hotPlug === undefined
      ? await lookup("multus")
      : createHotPlug(hotPlug, { openCluster });
    if (plugin === undefined) throw new Error("this daemon has no multus");
    const from = new URL(request.url).pathname;
    const outcome = await calls.run({
      ...call,
      ...caller,
      plugin,
      onStderr,
      from,
    });
    if ("notMine" in outcome) throw new Error(outcome.notMine);
    return outcome;
  };
  return new ThickHandler({ run, overlay, env, isEnding }).handle(request);
}

/**
 * Reads the daemon's own configuration; "" stands for none.
 *
 * @throws {CniError} 5 if the file cannot be read, 6 if it is not a JSON object
 */
export function readOverlay(path: string): JsonObject {
  if (path === "") return {};
  const value = parseJson(readText(path), `"${path}"`);
  if (isObject(value)) return value as JsonObject;
  throw new CniError(
    ErrorCode.DecodingFailure,
    `Cannot use "${path}": it is not a JSON object`,
  );
}

function readText(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    throw new CniError(
      ErrorCode.IoFailure,
      `Cannot read "${path}": ${describeError(error)}`,
    );
  }
}
