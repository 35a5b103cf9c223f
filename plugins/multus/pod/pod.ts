/**
 * The pod of a call, with the data that determines its networks; and whether the node
 * is ready for pods.
 *
 * @module
 */

import { pause } from "../../../base/deadline.ts";
import { yieldIfLong } from "../../../base/long_wait.ts";
import { CniError, describeError, ErrorCode } from "../../../base/error.ts";
import { unlessMissing, withIoFailure } from "../../../base/files/io.ts";
import {
  isObject,
  type JsonObject,
  type JsonValue,
} from "../../../base/json/json.ts";
import type { Pod } from "../../../kube/types.ts";
import type { K8sArgs } from "../model/k8s_args.ts";
import { nodePath } from "../model/config.ts";
import type { Cluster } from "./cluster.ts";

/** Annotations by key. */
export type Annotations = Readonly<Record<string, string>>;

/** A pod, from the runtime or the API server. */
export interface PodInfo {
  readonly namespace: string;
  readonly name: string;
  /** The pod's UID; "" if unknown. */
  readonly uid: string;
  readonly annotations: Annotations;
  /**
   * Whether it is a static pod: the runtime's UID then differs from the API server's
   * UID, which is the UID of the mirror pod.
   */
  readonly isStatic: boolean;
  /** The API server's object; absent if the runtime passed the annotations. */
  readonly object?: Pod;
}

/** Capability with the pod's annotations. Source: containerd and ocicni. */
const POD_ANNOTATIONS = "io.kubernetes.cri.pod-annotations";

/** Source: kubernetes pkg/kubelet/types/pod_update.go `ConfigSourceAnnotationKey`. */
const CONFIG_SOURCE = "kubernetes.io/config.source";

/** The input of {@linkcode findPod}. */
export interface PodSource {
  readonly k8s: K8sArgs;
  readonly runtimeConfig: JsonObject;
  readonly cluster: Cluster;
  readonly signal?: AbortSignal | undefined;
}

/**
 * The API server does not have the pod: it was deleted before its sandbox was
 * created.
 */
export const POD_IS_GONE = Symbol("the pod was deleted");

/**
 * Finds the pod of a call. The annotations come from the runtime if it passes them,
 * otherwise from the API server.
 *
 * @returns Undefined without Kubernetes, or if the runtime does not name a pod
 * @throws {CniError} 4 if the API server has a different pod with the same name, 11
 * or 7 if the request fails
 */
export async function findPod(
  source: PodSource,
): Promise<PodInfo | typeof POD_IS_GONE | undefined> {
  const { podNamespace: namespace, podName: name, podUid } = source.k8s;
  if (!source.cluster.isConfigured || name === "" || namespace === "") {
    return undefined;
  }
  const passed = source.runtimeConfig[POD_ANNOTATIONS];
  if (isAnnotations(passed)) {
    const isStatic = isFromFile(passed);
    return { namespace, name, uid: podUid, annotations: passed, isStatic };
  }
  return await fetchPod(source);
}

function isAnnotations(
  value: JsonValue | undefined,
): value is Record<string, string> {
  return isObject(value) &&
    Object.values(value).every((item) => typeof item === "string");
}

function isFromFile(annotations: Annotations): boolean {
  const origin = annotations[CONFIG_SOURCE];
  return origin !== undefined && origin !== "api";
}

async function fetchPod(
  { k8s, cluster, signal }: PodSource,
): Promise<PodInfo | typeof POD_IS_GONE> {
  const client = await cluster.client();
  const { isNotFound, KubeError, kubeErrorCode } = await import(
    "../../../kube/kube_error.ts"
  );
  try {
    const { podNamespace, podName } = k8s;
    const pod = await client.getPod(podNamespace, podName, { signal });
    return describePod(pod, k8s);
  } catch (error) {
    if (isNotFound(error)) return POD_IS_GONE;
    if (!(error instanceof KubeError)) throw error;
    throw new CniError(
      kubeErrorCode(error),
      `error waiting for pod: ${describeError(error)}`,
    );
  }
}

/** @throws {CniError} 4 if the runtime's UID differs */
function describePod(object: Pod, k8s: K8sArgs): PodInfo {
  const { uid = "", annotations = {} } = object.metadata ?? {};
  const isStatic = isFromFile(annotations);
  if (k8s.podUid !== "" && k8s.podUid !== uid && !isStatic) {
    throw new CniError(
      ErrorCode.InvalidEnvironment,
      `expected pod UID "${k8s.podUid}" but got "${uid}" from Kube API`,
    );
  }
  const { podNamespace: namespace, podName: name } = k8s;
  return { namespace, name, uid, annotations, isStatic, object };
}

/** Time limit and interval of the checks for the readiness file, in milliseconds. */
const READY_TIMEOUT_MS = 45_000, INTERVAL_MS = 1000;

/**
 * Waits until the master network has created its readiness file.
 *
 * Source: multus-cni pkg/types `GetReadinessIndicatorFile`.
 *
 * @param path The file; undefined returns immediately
 * @throws {CniError} 11 if the file does not appear in time
 */
export async function waitUntilReady(
  path: string | undefined,
  signal?: AbortSignal,
  timeoutMs: number = READY_TIMEOUT_MS,
): Promise<void> {
  if (path === undefined || exists(path)) return;
  await yieldIfLong(() => waitForFile(path, signal, timeoutMs));
}

async function waitForFile(
  path: string,
  signal: AbortSignal | undefined,
  timeoutMs: number,
): Promise<void> {
  const end = performance.now() + timeoutMs;
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
