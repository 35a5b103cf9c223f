/**
 * What the Kubernetes API answers instead of what it was asked for.
 *
 * @module
 */

import { ErrorCode } from "../cni/error.ts";

/** What is known of a failure, beside its message. */
export interface KubeFailure {
  /** HTTP status; 0 if there was no answer. */
  readonly status: number;
  /** `reason` of the Status in the body, as `NotFound`; "" if there is none. */
  readonly reason?: string;
  /** Whether time ran out. */
  readonly isTimeout?: boolean;
  /** Whether the server cannot have seen the request. */
  readonly isUnsent?: boolean;
  /** Whether TLS failed for good: one side does not accept the other. */
  readonly isUntrusted?: boolean;
  /** How long the server asks us to stay away, in milliseconds. */
  readonly retryAfterMs?: number | undefined;
  /** The error underneath. */
  readonly cause?: unknown;
}

/**
 * A request that failed. The message is worded as client-go's, and holds
 * nothing secret.
 */
export class KubeError extends Error {
  /** Names the class in texts. */
  override readonly name = "KubeError";
  /** HTTP status; 0 if there was no answer. */
  readonly status: number;
  /** `reason` of the Status in the body, as `NotFound`; "" if there is none. */
  readonly reason: string;
  /** Whether time ran out. */
  readonly isTimeout: boolean;
  /** Whether the server cannot have seen the request. */
  readonly isUnsent: boolean;
  /** Whether TLS failed for good: one side does not accept the other. */
  readonly isUntrusted: boolean;
  /** How long the server asks us to stay away, in milliseconds. */
  readonly retryAfterMs: number | undefined;

  /** Makes an error of its message and what else is known. */
  constructor(message: string, failure: KubeFailure) {
    super(message, "cause" in failure ? { cause: failure.cause } : {});
    this.status = failure.status;
    this.reason = failure.reason ?? "";
    this.isTimeout = failure.isTimeout ?? false;
    this.isUnsent = failure.isUnsent ?? false;
    this.isUntrusted = failure.isUntrusted ?? false;
    this.retryAfterMs = failure.retryAfterMs;
  }
}

/** Says whether the object is not there. */
export function isNotFound(error: unknown): boolean {
  return hasStatus(error, 404);
}

/** Says whether the server knows us, and does not let us. */
export function isForbidden(error: unknown): boolean {
  return hasStatus(error, 403);
}

/** Says whether the object is another by now: its version, or its UID. */
export function isConflict(error: unknown): boolean {
  return hasStatus(error, 409);
}

/** Says whether the server has answered with one of these statuses. */
export function hasStatus(
  error: unknown,
  ...statuses: readonly number[]
): boolean {
  return error instanceof KubeError && statuses.includes(error.status);
}

/** The `reason` of the error that says that a pod is another one of that name. */
export const UID_MISMATCH = "UidMismatch";

/**
 * Returns the CNI error code of a failure: 11 for what may pass by itself, 4 if
 * the pod is not the one that the runtime means, 7 for what somebody has to put
 * right.
 */
export function kubeErrorCode(
  { status, reason, isUntrusted }: KubeError,
): number {
  if (reason === UID_MISMATCH) return ErrorCode.InvalidEnvironment;
  const isPassing = status === 0 && !isUntrusted || status >= 500 ||
    [408, 409, 429].includes(status);
  return isPassing ? ErrorCode.TryAgainLater : ErrorCode.InvalidNetworkConfig;
}
