/**
 * The network side of a node agent: attaches the node's pods to its default
 * network, as kubelet used to and container runtimes do.
 *
 * @module
 */

import {
  CniError,
  describeError,
  ErrorCode,
  toCniError,
} from "../base/error.ts";
import { deadline, JoinedSignal } from "../base/deadline.ts";
import { KeyedQueue, type Slot } from "../base/queue.ts";
import type { MaybePromise } from "../base/waiting.ts";
import type { Cidr } from "../net/cidr.ts";
import type { NetworkChoice } from "./choose_network.ts";
import {
  collectPodGarbage,
  type ValidPod,
  type ValidPods,
} from "./collect_garbage.ts";
import { getReadyNetwork, lockPodToDetach, type NodeTools } from "./node.ts";
import {
  createNode,
  type EndedOperation,
  type NodeNetworkOptions,
  type NodeStatus,
  parsePodCidrs,
  type PodOptions,
} from "./node_options.ts";
import {
  type Pod,
  type PodNames,
  PodNetworkError,
  type PodOperation,
  type PodSandbox,
} from "./pod.ts";
import { type PodIps, readPodIps } from "./pod_ips.ts";
import { type PodNetwork, setUpPod } from "./set_up.ts";
import { tearDownPod } from "./tear_down.ts";
import { readCachedPod, restoreAttachment } from "./pod_attachments.ts";

/** Source: kubelet `CNITimeoutSec`: 20 s less than a CRI call. */
const TIMEOUT_MS = 220_000;

/**
 * The pods of one node and their networks.
 *
 * Operations on one pod run one after the other, operations on different pods run
 * concurrently, and garbage collection runs alone. Two processes never work on
 * the same container. Constructing it starts nothing, and nothing must be closed.
 *
 * Source: kubelet pkg/kubelet/dockershim/network, of Kubernetes 1.23.
 */
export class NodeNetwork {
  readonly #node: NodeTools;
  /**
   * The order of operations by pod, not by sandbox: a pod's new sandbox waits for
   * the tear-down of the old one.
   *
   * Source: kubelet pkg/kubelet/dockershim/network/plugins.go `PluginManager`.
   */
  readonly #queue = new KeyedQueue();
  readonly #onOperation: (operation: EndedOperation) => void;
  readonly #beingSetUp = new Set<ValidPod>();
  /**
   * For each garbage collection, pods that its caller might not have listed.
   */
  readonly #unlisted = new Set<Set<ValidPod>>();
  #podCidrs: readonly Cidr[];

  /**
   * Takes the node's options; touches nothing yet.
   *
   * @throws {CniError} 7 If a PodCIDR is invalid
   */
  constructor(options: NodeNetworkOptions) {
    const { podCidr = "", podCidrs = [], onOperation = (): void => {} } =
      options;
    this.#podCidrs = parsePodCidrs([...podCidr.split(","), ...podCidrs]);
    this.#node = createNode(options, () => this.#podCidrs);
    this.#onOperation = onOperation;
  }

  /**
   * Sets the PodCIDRs that the cluster assigns after the node has started. They
   * cannot change later: a change is only logged.
   *
   * Source: kubelet `NET_PLUGIN_EVENT_POD_CIDR_CHANGE`.
   *
   * @throws {CniError} 7 If one is invalid
   */
  setPodCidrs(podCidrs: readonly string[]): void {
    const parsed = parsePodCidrs(podCidrs);
    const [known, ignored] = [this.#podCidrs.join(","), parsed.join(",")];
    if (known === "") this.#podCidrs = parsed;
    else if (known !== ignored) {
      this.#node.log.warn("Ignored a change of PodCIDRs", { known, ignored });
    }
  }

  /** Reports whether pods can be set up. Never throws. */
  async status(options: PodOptions = {}): Promise<NodeStatus> {
    using limit = limitOf(options);
    const { signal } = limit;
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
   * everything is undone.
   *
   * @throws {PodNetworkError} `networkPlugin cni failed to set up pod "P" network`;
   *   50 without a usable network, 4 if the container is already attached, 11 if
   *   the deadline passed before anything was started
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
   * Detaches a pod from everything it is attached to. Works without the network
   * namespace and can be repeated.
   *
   * @param pod The sandbox, plus everything its plugins may need if its set-up is
   *   not in the cache
   * @throws {PodNetworkError} `networkPlugin cni failed to teardown pod "P"
   *   network`, after everything has been tried
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
   * Reads a pod's current addresses from its network namespace.
   *
   * @throws {PodNetworkError} `networkPlugin cni failed on the status hook for
   * pod "P"`; 8 if the namespace was deleted
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
   * @throws {PodNetworkError} The difference a plugin found, or 3 if the pod has
   *   no attachment; the cause is a CheckNotSupportedError if the network's
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
   * Removes what is left of pods that no longer exist. Waits for running
   * operations; later operations wait for it.
   *
   * @param validPods The pods that stay, or a function that lists them once
   *   nothing else is running; it must not call operations on pods. Pods that
   *   this agent is setting up at the time stay too
   * @throws The only failure, or an AggregateError of several
   */
  async collectGarbage(
    validPods: ValidPods,
    options: PodOptions = {},
  ): Promise<void> {
    const unlisted = new Set(this.#beingSetUp);
    this.#unlisted.add(unlisted);
    try {
      using limit = limitOf(options);
      const { signal } = limit;
      await collectPodGarbage(this.#node, { validPods, unlisted, signal });
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
      using limit = limitOf(options);
      const { signal } = limit;
      using _turn = await this.#waitForTurn(pod, signal);
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

  /** @throws {CniError} 11 at the signal */
  async #waitForTurn(
    { namespace, name }: PodNames,
    signal: AbortSignal,
  ): Promise<Slot> {
    // Names cannot contain a slash.
    const key = `${namespace}/${name}`;
    const slot = await this.#queue.wait(key, signal);
    if (slot !== undefined) return slot;
    throw new CniError(
      ErrorCode.TryAgainLater,
      `Cannot lock pod "${key}": another operation on it is in progress`,
      { cause: signal.reason },
    );
  }

  /** A failing observer must not make an operation fail. */
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

function limitOf(
  { signal, timeoutMs = TIMEOUT_MS }: PodOptions,
): JoinedSignal {
  return new JoinedSignal(deadline(timeoutMs), signal);
}

function describeChoice(
  { network, skipped }: NetworkChoice,
): Pick<NodeStatus, "network" | "skipped"> {
  if (network === undefined) return { skipped };
  const { path, list: { name } } = network;
  return { network: { name, path }, skipped };
}

/**
 * Checks a pod's loopback and its networks, with the configuration and the
 * arguments that it was set up with.
 *
 * @throws {CniError} The error of the first plugin that finds a difference; 3 if
 *   the pod has no attachment
 * @throws {CheckNotSupportedError} 1 If its network's version has no CHECK
 */
async function checkPod(
  node: NodeTools,
  pod: PodSandbox,
  signal: AbortSignal,
): Promise<void> {
  const { containerId, netns } = pod;
  using _lock = await lockPodToDetach(node, containerId, signal);
  const { loopback, networks } = readCachedPod(node, pod);
  if (networks.length === 0) {
    throw new CniError(
      ErrorCode.UnknownContainer,
      `Cannot check container "${containerId}": it is attached to no network`,
    );
  }
  for (const cached of loopback ? [loopback, ...networks] : networks) {
    const { list, conf } = restoreAttachment(cached, netns);
    await node.runtime.checkNetworkList(list, conf, { signal });
  }
}
