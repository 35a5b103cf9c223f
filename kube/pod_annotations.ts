/**
 * Writes annotations of pods.
 *
 * @module
 */

import { pause } from "../base/deadline.ts";
import {
  hasStatus,
  isConflict,
  isForbidden,
  KubeError,
  UID_MISMATCH,
} from "./kube_error.ts";
import { apiPath, type KubeRequest } from "./request.ts";
import { limitOverall, type TimeLimits } from "./retry.ts";
import type { Pod } from "./types.ts";

/** The name of a pod. */
export interface PodKey {
  readonly namespace: string;
  readonly name: string;
  /** If set, a later pod of the same name is refused. */
  readonly uid?: string | undefined;
}

/** Values by key. */
export type Annotations = Readonly<Record<string, string>>;

/** A change of an annotation, on the condition that it has a certain value. */
export interface AnnotationChange {
  readonly key: string;
  /** The required current value. */
  readonly value: string;
  /** The new value; undefined to remove the annotation. */
  readonly next?: string;
}

/** Sends a request; returns the answer's JSON. */
type Send = <T>(request: KubeRequest, limits: TimeLimits) => Promise<T>;

/** Maximum number of attempts if other writes conflict. */
const TRIES = 5;
/** Time between two attempts, in milliseconds. */
const PAUSE_MS = 10;
/** How long PATCH is not tried again after it was not allowed, in ms. */
const PUT_MS = 5 * 60_000;

/**
 * Writes annotations of pods with one PATCH of the status. If that is not
 * allowed, it reads and replaces the status like the reference implementation.
 */
export class PodAnnotator {
  readonly #send: Send;
  #putUntilMs = -Infinity;

  /** Creates a writer with a function that sends requests. */
  constructor(send: Send) {
    this.#send = send;
  }

  /**
   * Sets annotations of a pod, and keeps its other annotations.
   *
   * @throws {KubeError} 409 if the pod has another UID
   */
  async set(
    pod: PodKey,
    annotations: Annotations,
    given: TimeLimits,
  ): Promise<void> {
    await this.#write(
      given,
      (limits) => this.#patch(pod, annotations, limits),
      (limits) =>
        this.#put(pod, (others) => ({ ...others, ...annotations }), limits),
    );
  }

  /**
   * Removes an annotation of a pod, unless its value has changed. A deleted
   * pod, or a new pod of the same name, is left alone.
   *
   * @throws {KubeError}
   */
  async remove(
    pod: PodKey,
    key: string,
    value: string,
    given: TimeLimits,
  ): Promise<void> {
    await this.#exchange(pod, { key, value }, given);
  }

  /**
   * Replaces the value of an annotation of a pod, unless another program has
   * changed it.
   *
   * @returns Whether it is replaced; false if the value has changed, or the pod was
   *   deleted
   * @throws {KubeError}
   */
  async replace(
    pod: PodKey,
    change: Required<AnnotationChange>,
    given: TimeLimits,
  ): Promise<boolean> {
    return await this.#exchange(pod, change, given);
  }

  /** @returns Whether the annotation had the value */
  async #exchange(
    pod: PodKey,
    change: AnnotationChange,
    given: TimeLimits,
  ): Promise<boolean> {
    const { key, value, next } = change;
    let had = true;
    try {
      await this.#write(
        given,
        (limits) => this.#patchValue(pod, change, limits),
        (limits) =>
          this.#put(
            pod,
            ({ [key]: current, ...others }) => {
              had = current === value;
              if (!had) return undefined;
              return next === undefined ? others : { ...others, [key]: next };
            },
            limits,
          ),
      );
      return had;
    } catch (error) {
      if (!hasStatus(error, 404, 409, 422)) throw error;
      return false;
    }
  }

  /** Patches if PATCH is permitted; otherwise reads and replaces. */
  async #write(
    given: TimeLimits,
    patch: (limits: TimeLimits) => Promise<void>,
    put: (limits: TimeLimits) => Promise<void>,
  ): Promise<void> {
    using limit = limitOverall(given);
    const { signal } = limit;
    const limits = { ...given, signal };
    if (performance.now() >= this.#putUntilMs) {
      try {
        return await retryOnConflict(signal, () => patch(limits));
      } catch (error) {
        if (!isUnsupported(error)) throw error;
        this.#putUntilMs = performance.now() + PUT_MS;
      }
    }
    await retryOnConflict(signal, () => put(limits));
  }

  async #patch(
    pod: PodKey,
    annotations: Annotations,
    limits: TimeLimits,
  ): Promise<void> {
    const { uid } = pod;
    try {
      await this.#send({
        method: "PATCH",
        path: statusPath(pod),
        contentType: "application/merge-patch+json",
        // A UID is immutable, so the request fails if the pod has a different UID.
        body: { metadata: { ...uid ? { uid } : {}, annotations } },
      }, limits);
    } catch (error) {
      // The status depends on the server: 422, or 409, which may also mean a
      // concurrent write.
      if (uid && isInvalidOrConflict(error)) await this.#get(pod, limits);
      throw error;
    }
  }

  async #patchValue(
    pod: PodKey,
    { key, value, next }: AnnotationChange,
    limits: TimeLimits,
  ): Promise<void> {
    const { uid } = pod;
    // RFC 6901, 3. A key has no "~".
    const path = `/metadata/annotations/${key.replaceAll("/", "~1")}`;
    await this.#send({
      method: "PATCH",
      path: statusPath(pod),
      contentType: "application/json-patch+json",
      body: [
        ...uid ? [{ op: "test", path: "/metadata/uid", value: uid }] : [],
        { op: "test", path, value },
        next === undefined
          ? { op: "remove", path }
          : { op: "replace", path, value: next },
      ],
    }, limits);
  }

  /** @param edit Returns the new annotations; undefined to leave the pod alone */
  async #put(
    key: PodKey,
    edit: (annotations: Annotations) => Annotations | undefined,
    limits: TimeLimits,
  ): Promise<void> {
    const pod = await this.#get(key, limits);
    const { metadata } = pod;
    const annotations = edit(metadata?.annotations ?? {});
    if (annotations === undefined) return;
    await this.#send({
      method: "PUT",
      path: statusPath(key),
      body: {
        ...pod,
        metadata: { ...metadata, annotations },
      },
    }, limits);
  }

  async #get(key: PodKey, limits: TimeLimits): Promise<Pod> {
    const pod = await this.#send<Pod>({ path: podPath(key) }, limits);
    const uid = pod.metadata?.uid ?? "";
    if (!key.uid || key.uid === uid) return pod;
    throw new KubeError(
      `expected pod UID "${key.uid}" but got "${uid}" from Kube API`,
      { status: 409, reason: UID_MISMATCH },
    );
  }
}

/** Returns the path of a pod. */
export function podPath({ namespace, name }: PodKey): string {
  return apiPath("/api/v1", "namespaces", namespace, "pods", name);
}

function statusPath(pod: PodKey): string {
  return `${podPath(pod)}/status`;
}

/** Reports whether PATCH is not permitted or not supported. */
function isUnsupported(error: unknown): boolean {
  return isForbidden(error) || hasStatus(error, 405, 415);
}

function isInvalidOrConflict(error: unknown): boolean {
  return isConflict(error) || hasStatus(error, 422);
}

async function retryOnConflict(
  signal: AbortSignal,
  write: () => Promise<void>,
): Promise<void> {
  for (let tries = TRIES;; tries--) {
    try {
      return await write();
    } catch (error) {
      if (tries === 1 || !isPassingConflict(error)) throw error;
    }
    await pause(PAUSE_MS, signal);
  }
}

function isPassingConflict(error: unknown): boolean {
  return isConflict(error) && (error as KubeError).reason !== UID_MISMATCH;
}
