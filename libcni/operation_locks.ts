/**
 * Which lock an operation needs, and when it can do without.
 *
 * @module
 */

import { checkContainerId } from "../cni/call/args.ts";
import { describeError, ErrorCode, toCniError } from "../base/error.ts";
import { omitAbsent } from "../base/json/json.ts";
import type { OperationOptions } from "./operation.ts";
import type { RuntimeConf } from "./runtime_conf.ts";
import type { Tools } from "./tools.ts";

/**
 * Waits until no other operation on the container and no GC is running. An
 * invalid container ID needs no lock, because the operation will refuse it.
 *
 * @throws {CniError} 5 If the lock cannot be created, 11 on the signal or after
 *   five minutes
 */
export async function lockContainer(
  { locks, log }: Tools,
  { containerId }: RuntimeConf,
  { signal }: OperationOptions,
): Promise<Disposable | undefined> {
  if (!isContainerId(containerId)) return undefined;
  return await locks?.lockContainer(containerId, omitAbsent({ signal, log }));
}

function isContainerId(containerId: string): boolean {
  try {
    checkContainerId(containerId);
    return true;
  } catch {
    return false;
  }
}

/**
 * Does the same if the lock can be created. A container must be detachable even
 * if the disk is full or read-only.
 *
 * @throws {CniError} 11 on the signal or after five minutes
 */
export async function tryLockContainer(
  tools: Tools,
  conf: RuntimeConf,
  options: OperationOptions,
): Promise<Disposable | undefined> {
  try {
    return await lockContainer(tools, conf, options);
  } catch (error) {
    if (toCniError(error).code !== ErrorCode.IoFailure) throw error;
    tools.log.warn("Going on without a lock", {
      containerId: conf.containerId,
      error: describeError(error),
    });
    return undefined;
  }
}

/**
 * Waits until no operation on any container is running.
 *
 * @throws {CniError} 5 If the lock cannot be created, 11 on the signal or after
 *   five minutes
 */
export async function lockExclusively(
  { locks, log }: Tools,
  { signal }: OperationOptions,
): Promise<Disposable | undefined> {
  return await locks?.lockExclusively(omitAbsent({ signal, log }));
}
