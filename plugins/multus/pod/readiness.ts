/**
 * The readiness file of the master network.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../cni/error.ts";
import { pause } from "../../../cni/call/deadline.ts";
import { unlessMissing, withIoFailure } from "../../../cni/files/io.ts";
import { nodePath } from "../model/config.ts";

/** How long it is waited for, and how often it is looked for, in milliseconds. */
const PATIENCE_MS = 45_000, INTERVAL_MS = 1000;

/**
 * Waits until the master network has created its readiness file.
 *
 * Source: multus-cni pkg/multus `GetReadinessIndicatorFile`... `WaitForReadinessIndicatorFile`.
 *
 * @param path The file; undefined returns at once
 * @throws {CniError} 11 if the file does not appear in time
 */
export async function waitUntilReady(
  path: string | undefined,
  signal?: AbortSignal,
  patienceMs: number = PATIENCE_MS,
): Promise<void> {
  if (path === undefined) return;
  const end = performance.now() + patienceMs;
  while (!exists(path)) {
    const left = end - performance.now();
    if (left <= 0 || signal?.aborted) {
      throw notReady(ErrorCode.TryAgainLater, path);
    }
    await pause(Math.min(left, INTERVAL_MS), signal);
  }
}

/**
 * Checks once whether the file exists. Runtimes call STATUS within their own
 * status call, which must not wait.
 *
 * @param path The file; undefined means always ready
 * @throws {CniError} 50 if it does not exist
 */
export function requireReady(path: string | undefined): void {
  if (path === undefined || exists(path)) return;
  throw notReady(ErrorCode.PluginNotAvailable, path);
}

function notReady(code: number, path: string): CniError {
  return new CniError(
    code,
    `have you checked that your default network is ready? ` +
      `still waiting for readinessindicatorfile @ ${path}`,
  );
}

function exists(path: string): boolean {
  return withIoFailure(
    `look for readinessindicatorfile "${path}"`,
    () => unlessMissing(() => Deno.statSync(nodePath(path))),
  ) !== undefined;
}
