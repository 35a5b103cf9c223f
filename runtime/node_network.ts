/**
 * The network side of a node agent: attaches the node's pods to its default
 * network, as kubelet did and as container runtimes do.
 *
 * @module
 */

import { describeError, toCniError } from "../cni/error.ts";
import { deadline } from "../cni/invoke/deadline.ts";
import type { MaybePromise } from "../cni/plugin.ts";
import type { Cidr } from "../net/cidr.ts";
import { checkPod } from "./check_pod.ts";
import type { NetworkChoice } from "./choose_network.ts";
import {
  collectGarbage,
  type ValidPod,
  type ValidPods,
} from "./collect_garbage.ts";
import { getReadyNetwork, type Node } from "./node.ts";
import {
  createNode,
  type EndedOperation,
  type NodeNetworkOptions,
  type NodeStatus,
  parsePodCidrs,
  type PodOptions,
} from "./node_options.ts";
import type { Pod, PodNames, PodSandbox } from "./pod.ts";
import { type PodIps, readPodIps } from "./pod_ips.ts";
import { PodLocks } from "./pod_locks.ts";
import { PodNetworkError, type PodOperation } from "./pod_network_error.ts";
import { type PodNetwork, setUpPod } from "./set_up.ts";
import { tearDownPod } from "./tear_down.ts";

/** Source: kubelet `CNITimeoutSec`: 20 s less than a call of the CRI has. */
const TIMEOUT_MS = 220_000;

/**
 * The pods of one node and their networks.
 *
 * Operations on one pod follow one another, those on several run at the same
 * time, and garbage collection has the node for itself. No two processes are at
 * work on one container. Nothing is started by making it, and nothing has to be
 * closed.
 *
 * Source: kubelet pkg/kubelet/dockershim/network, of Kubernetes 1.23.
 */
export class NodeNetwork {
  readonly #node: Node;
  readonly #locks = new PodLocks();
  readonly #onOperation: (operation: EndedOperation) => void;
  readonly #beingSetUp = new Set<ValidPod>();
  /** For each garbage collection, pods that who asked for it may not have listed. */
  readonly #unlisted = new Set<Set<ValidPod>>();
  #podCidrs: readonly Cidr[];

  /**
   * Starts with what the node decides once; nothing is touched yet.
   *
   * @throws {CniError} 7 If a PodCIDR is none
   */
  constructor(options: NodeNetworkOptions) {
    const { podCidr = "", podCidrs = [], onOperation = (): void => {} } =
      options;
    this.#podCidrs = parsePodCidrs([...podCidr.split(","), ...podCidrs]);
    this.#node = createNode(options, () => this.#podCidrs);
    this.#onOperation = onOperation;
  }

  /**
   * Tells the node its PodCIDRs, which it gets from the cluster after it has
   * started. Once they are known they stay: a change is logged, and no more.
   *
   * Source: kubelet `NET_PLUGIN_EVENT_POD_CIDR_CHANGE`.
   *
   * @throws {CniError} 7 If one is none
   */
  setPodCidrs(podCidrs: readonly string[]): void {
    const parsed = parsePodCidrs(podCidrs);
    const [known, ignored] = [this.#podCidrs.join(","), parsed.join(",")];
    if (known === "") this.#podCidrs = parsed;
    else if (known !== ignored) {
      this.#node.log.warn("Ignored a change of PodCIDRs", { known, ignored });
    }
  }

  /** Tells whether pods can be set up. It does not throw. */
  async status(options: PodOptions = {}): Promise<NodeStatus> {
    const signal = signalOf(options);
    let found: Pick<NodeStatus, "network" | "skipped"> = { skipped: [] };
    try {
      const choice = await this.#node.defaultNetwork.get(signal);
      found = describeChoice(choice);
      const { list } = getReadyNetwork(this.#node, choice);
      await this.#node.runtime.statusNetworkList(list, { signal });
      return { isReady: true, ...found };
    } catch (cause) {
      const error = toCniError(cause);
      return { isReady: false, reason: describeError(error), error, ...found };
    }
  }

  /**
   * Attaches a pod to its loopback and to the default network. If that fails,
   * all of it is undone.
   *
   * @throws {PodNetworkError} `networkPlugin cni failed to set up pod "P" network`;
   *   50 without a network that can be used, 4 if the container is attached
   *   already, 11 if it was too late before anything was begun
   */
  async setUpPod(pod: Pod, options: PodOptions = {}): Promise<PodNetwork> {
    const { containerId } = pod;
    const token = { containerId };
    for (const pods of [this.#beingSetUp, ...this.#unlisted]) pods.add(token);
    try {
      return await this.#operate(
        "set_up_pod",
        pod,
        options,
        (signal) => setUpPod(this.#node, pod, signal),
      );
    } finally {
      this.#beingSetUp.delete(token);
    }
  }

  /**
   * Detaches a pod from what it was attached to. That its network namespace is
   * gone is no obstacle. It may be repeated.
   *
   * @param pod Beside its sandbox, all that its plugins might need if nothing is
   *   known of its set-up
   * @throws {PodNetworkError} `networkPlugin cni failed to teardown pod "P"
   *   network`, when everything has been tried
   */
  async tearDownPod(pod: Pod, options: PodOptions = {}): Promise<void> {
    await this.#operate(
      "tear_down_pod",
      pod,
      options,
      (signal) => tearDownPod(this.#node, pod, signal),
    );
  }

  /**
   * Reads the addresses that a pod has now from its network namespace.
   *
   * @throws {PodNetworkError} `networkPlugin cni failed on the status hook for
   *   pod "P"`; 8 if the namespace is gone
   */
  async getPodNetworkStatus(
    pod: Omit<PodSandbox, "containerId">,
    options: PodOptions = {},
  ): Promise<PodIps> {
    return await this.#operate(
      "get_pod_network_status",
      pod,
      options,
      () => readPodIps(pod),
    );
  }

  /**
   * Checks that a pod is attached as its set-up left it.
   *
   * @throws {PodNetworkError} What a plugin found wrong, or 3 if the pod is
   *   attached to nothing; the cause is a CheckNotSupportedError if the network's
   *   version has no CHECK
   */
  async checkPod(pod: PodSandbox, options: PodOptions = {}): Promise<void> {
    await this.#operate(
      "check_pod",
      pod,
      options,
      (signal) => checkPod(this.#node, pod, signal),
    );
  }

  /**
   * Removes what is left of pods that are no more. It waits for the operations
   * that are under way; later ones wait for it.
   *
   * @param validPods The pods that stay, or a function that lists them when
   *   nothing else is at work; it may not call operations on pods. Those that
   *   this agent sets up meanwhile stay, too
   * @throws The only failure, or an AggregateError of several
   */
  async collectGarbage(
    validPods: ValidPods,
    options: PodOptions = {},
  ): Promise<void> {
    const unlisted = new Set(this.#beingSetUp);
    this.#unlisted.add(unlisted);
    try {
      const signal = signalOf(options);
      await collectGarbage(this.#node, { validPods, unlisted, signal });
    } finally {
      this.#unlisted.delete(unlisted);
    }
  }

  async #operate<T>(
    operation: PodOperation,
    pod: PodNames,
    options: PodOptions,
    work: (signal: AbortSignal) => MaybePromise<T>,
  ): Promise<T> {
    const startMs = performance.now();
    let failure: { readonly error?: PodNetworkError } = {};
    try {
      const signal = signalOf(options);
      using _lock = await this.#locks.lock(pod, signal);
      return await work(signal);
    } catch (cause) {
      const error = new PodNetworkError(operation, pod, cause);
      failure = { error };
      throw error;
    } finally {
      const milliseconds = performance.now() - startMs;
      this.#report({ operation, milliseconds, ...failure });
    }
  }

  /** What counts operations must not make one fail. */
  #report(ended: EndedOperation): void {
    try {
      this.#onOperation(ended);
    } catch (error) {
      this.#node.log.warn("Cannot report an operation", {
        operation: ended.operation,
        error: describeError(error),
      });
    }
  }
}

function signalOf(
  { signal, timeoutMs = TIMEOUT_MS }: PodOptions,
): AbortSignal {
  return deadline(timeoutMs, signal);
}

function describeChoice(
  { network, skipped }: NetworkChoice,
): Pick<NodeStatus, "network" | "skipped"> {
  if (network === undefined) return { skipped };
  const { path, list: { name } } = network;
  return { network: { name, path }, skipped };
}
