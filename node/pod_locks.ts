/**
 * Locks that serialize operations on one pod within this process.
 *
 * They use the pod's names, not its sandbox: a pod's new sandbox waits for the
 * tear-down of the old one.
 *
 * @module
 */

import { CniError, ErrorCode } from "../base/error.ts";
import { TurnQueues } from "../base/waiting.ts";
import type { PodNames } from "./pod.ts";

/**
 * The locks of all pods. A lock exists while an operation holds it or waits for
 * it, which is why kubelet counts references.
 *
 * Source: kubelet pkg/kubelet/dockershim/network/plugins.go `PluginManager`.
 */
export class PodLocks {
  readonly #queues = new TurnQueues();

  /**
   * Waits until all earlier operations on a pod have finished.
   *
   * @returns The lock, held until disposal
   * @throws {CniError} 11 at the signal
   */
  async lock(
    { namespace, name }: PodNames,
    signal: AbortSignal,
  ): Promise<Disposable> {
    // Names cannot contain a slash.
    const key = `${namespace}/${name}`;
    return await this.#queues.takeTurn(key, {
      signal,
      giveUp: () =>
        new CniError(
          ErrorCode.TryAgainLater,
          `Cannot lock pod "${key}": another operation on it is under way`,
          { cause: signal.reason },
        ),
    });
  }
}
