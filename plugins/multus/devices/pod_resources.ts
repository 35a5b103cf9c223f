/**
 * Requests the devices of a pod from the kubelet.
 *
 * Source: k8s.io/kubelet pkg/apis/podresources/v1/api.proto.
 *
 * @module
 */

import type { Bytes } from "../../../net/bytes.ts";
import { CniError, ErrorCode } from "../../../base/error.ts";
import { JoinedSignal, pause } from "../../../base/deadline.ts";
import { yieldIfLong } from "../../../base/long_wait.ts";
import { GrpcClient, GrpcError, type GrpcStatus } from "./grpc.ts";
import { message, messages, text, texts, type ValueOf } from "./protobuf.ts";

/** A device of a pod. */
export interface PodDevice {
  /** The resource, such as `vendor.com/nic`. */
  readonly resourceName: string;
  /** The device, such as a PCI address. */
  readonly deviceId: string;
}

/** Identifies the pod. */
export interface PodName {
  readonly namespace: string;
  readonly name: string;
}

const getRequest = message({ podName: text(1), podNamespace: text(2) });

const containerDevices = message({
  resourceName: text(1),
  deviceIds: texts(2),
});
const containerResources = message({ devices: messages(2, containerDevices) });
const podResources = message({
  name: text(1),
  namespace: text(2),
  containers: messages(3, containerResources),
});
/** The response of both methods: a single pod, or all pods of the node. */
const response = message({ podResources: messages(1, podResources) });

const SERVICE = "/v1.PodResourcesLister";
const TIMEOUT_MS = 10_000;

/**
 * Delays of the retries if the kubelet's rate limit is exceeded. It serves 100
 * calls a second, and a booting node has a CNI call for each of its pods.
 *
 * Source: kubernetes pkg/kubelet/apis/grpc/ratelimit.go.
 */
const RATE_LIMIT_PAUSES_MS = [20, 50, 100, 200, 400, 800];

/**
 * Reads which devices the kubelet's device plugins assigned to the containers of a
 * pod. It takes at most 10 s.
 *
 * @returns No devices if the kubelet does not know the pod
 * @throws {CniError} 11 if the kubelet is unavailable, 5 if its response is
 *   malformed
 */
export async function readPodResources(
  socketPath: string,
  pod: PodName,
  signal?: AbortSignal,
): Promise<PodDevice[]> {
  try {
    using kubelet = new GrpcClient(socketPath);
    using limit = new JoinedSignal(TIMEOUT_MS, signal);
    const answer = await yieldIfLong(() => ask(kubelet, pod, limit.signal));
    return response.decode(answer).podResources
      .filter(({ name, namespace }) =>
        name === pod.name && namespace === pod.namespace
      )
      .flatMap(listDevices);
  } catch (error) {
    throw new CniError(
      codeOf(error),
      `Cannot query the kubelet at "${socketPath}" for the devices of pod ` +
        `"${pod.namespace}/${pod.name}"`,
      { cause: error },
    );
  }
}

/**
 * Requests the pod, or otherwise all pods. Kubelets before 1.27 lack the first
 * method; up to 1.33 they refuse it with the status Unknown unless a feature gate is
 * on. They return the same status for an unknown pod.
 */
async function ask(
  kubelet: GrpcClient,
  { name, namespace }: PodName,
  signal: AbortSignal,
): Promise<Bytes> {
  const request = { podName: name, podNamespace: namespace };
  try {
    return await call(kubelet, "Get", getRequest.encode(request), signal);
  } catch (error) {
    if (!(error instanceof GrpcError)) throw error;
    return await call(kubelet, "List", new Uint8Array(), signal);
  }
}

async function call(
  kubelet: GrpcClient,
  method: "Get" | "List",
  request: Bytes,
  signal: AbortSignal,
): Promise<Bytes> {
  const path = `${SERVICE}/${method}`;
  for (const pauseMs of RATE_LIMIT_PAUSES_MS) {
    try {
      return await kubelet.call(path, request, signal);
    } catch (error) {
      if (!hasStatus(error, "ResourceExhausted")) throw error;
      await pause(pauseMs, signal);
    }
  }
  return await kubelet.call(path, request, signal);
}

function hasStatus(error: unknown, ...statuses: GrpcStatus[]): boolean {
  return error instanceof GrpcError && statuses.includes(error.status);
}

function listDevices(
  { containers }: ValueOf<typeof podResources>,
): PodDevice[] {
  return containers.flatMap(({ devices }) =>
    devices.flatMap(({ resourceName, deviceIds }) =>
      deviceIds.map((deviceId) => ({ resourceName, deviceId }))
    )
  );
}

/** Returns 11 for errors that can be temporary, 5 for other errors. */
function codeOf(error: unknown): number {
  if (error instanceof RangeError) return ErrorCode.IoFailure;
  if (!(error instanceof GrpcError)) return ErrorCode.TryAgainLater;
  const isPassing = hasStatus(
    error,
    "DeadlineExceeded",
    "ResourceExhausted",
    "Unavailable",
  );
  return isPassing ? ErrorCode.TryAgainLater : ErrorCode.IoFailure;
}
