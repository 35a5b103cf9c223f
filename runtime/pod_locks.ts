/**
 * Locks that keep the operations on one pod apart, within this process.
 *
 * They go by the pod's names, not by its sandbox: a pod's new sandbox is not set
 * up while the old one is torn down.
 *
 * @module
 */

import { CniError, ErrorCode } from "../cni/error.ts";
import { TurnQueues } from "../cni/libcni/waiting.ts";
import type { PodNames } from "./pod.ts";

/**
 * The locks of all pods. One is there for as long as somebody has it or waits
 * for it, which is what kubelet counts references for.
 *
 * Source: kubelet pkg/kubelet/dockershim/network/plugins.go `PluginManager`.
 */
export class PodLocks {
  readonly #queues = new TurnQueues();

  /**
   * Waits until all operations on a pod that were begun before are over.
   *
   * @returns The lock, held until disposal
   * @throws {CniError} 11 at the signal
   */
  async lock(
    { namespace, name }: PodNames,
    signal: AbortSignal,
  ): Promise<Disposable> {
    // No name has a slash in it.
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
