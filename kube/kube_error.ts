/**
 * Errors of requests to the Kubernetes API.
 *
 * @module
 */

import { ErrorCode } from "../base/error.ts";

/** The details of a failure. */
export interface KubeFailure {
  /** HTTP status; 0 without an answer. */
  readonly status: number;
  /** `reason` of the Status in the body, such as `NotFound`; "" if absent. */
  readonly reason?: string;
  /** Whether the request timed out. */
  readonly isTimeout?: boolean;
  /** Whether the server cannot have seen the request. */
  readonly isUnsent?: boolean;
  /** Whether nothing listens at the server's address. */
  readonly isRefused?: boolean;
  /** Whether TLS failed permanently: one side does not accept the other. */
  readonly isUntrusted?: boolean;
  /** Whether the answer was longer than the client reads. */
  readonly isTooLong?: boolean;
  /** How long the server asks clients to wait, in milliseconds. */
  readonly retryAfterMs?: number | undefined;
  /** The underlying error. */
  readonly cause?: unknown;
}

/** A failed request. The message has client-go's wording, and no secrets. */
export class KubeError extends Error {
  /** Names the class in texts. */
  override readonly name = "KubeError";
  /** HTTP status; 0 without an answer. */
  readonly status: number;
  /** `reason` of the Status in the body, such as `NotFound`; "" if absent. */
  readonly reason: string;
  /** Whether the request timed out. */
  readonly isTimeout: boolean;
  /** Whether the server cannot have seen the request. */
  readonly isUnsent: boolean;
  /** Whether nothing listens at the server's address. */
  readonly isRefused: boolean;
  /** Whether TLS failed permanently: one side does not accept the other. */
  readonly isUntrusted: boolean;
  /** Whether the answer was longer than the client reads. */
  readonly isTooLong: boolean;
  /** How long the server asks clients to wait, in milliseconds. */
  readonly retryAfterMs: number | undefined;

  /** Creates an error with a message and details. */
  constructor(message: string, failure: KubeFailure) {
    super(message, "cause" in failure ? { cause: failure.cause } : {});
    this.status = failure.status;
    this.reason = failure.reason ?? "";
    this.isTimeout = failure.isTimeout ?? false;
    this.isUnsent = failure.isUnsent ?? false;
    this.isRefused = failure.isRefused ?? false;
    this.isUntrusted = failure.isUntrusted ?? false;
    this.isTooLong = failure.isTooLong ?? false;
    this.retryAfterMs = failure.retryAfterMs;
  }
}

/** Reports whether the object does not exist. */
export function isNotFound(error: unknown): boolean {
  return hasStatus(error, 404);
}

/** Reports whether the server denied permission to an authenticated client. */
export function isForbidden(error: unknown): boolean {
  return hasStatus(error, 403);
}

/** Reports whether the object's version or UID has changed. */
export function isConflict(error: unknown): boolean {
  return hasStatus(error, 409);
}

/** Reports whether the server answered with one of these statuses. */
export function hasStatus(
  error: unknown,
  ...statuses: readonly number[]
): boolean {
  return error instanceof KubeError && statuses.includes(error.status);
}

/** The `reason` of the error for a different pod of the same name. */
export const UID_MISMATCH = "UidMismatch";

/**
 * Returns the CNI error code of a failure: 11 for a temporary problem, 4 if the
 * pod is not the runtime's pod, 7 for a problem that an administrator must fix.
 */
export function kubeErrorCode(
  { status, reason, isUntrusted }: KubeError,
): number {
  if (reason === UID_MISMATCH) return ErrorCode.InvalidEnvironment;
  const isPassing = status === 0 && !isUntrusted || status >= 500 ||
    [408, 409, 429].includes(status);
  return isPassing ? ErrorCode.TryAgainLater : ErrorCode.InvalidNetworkConfig;
}
