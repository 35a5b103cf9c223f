/**
 * Errors of multus itself.
 *
 * @module
 */

import { type CniError, toCniError, withMessage } from "../../../base/error.ts";
import type { K8sArgs } from "./k8s_args.ts";

/** The parts of an error text that precede the cause. */
export interface FailureContext {
  /** The pod; absent in STATUS and GC, and before CNI_ARGS are parsed. */
  readonly k8s?: K8sArgs;
  /** The step that failed, such as `error saving the delegates`. */
  readonly action?: string;
}

/**
 * Builds an error of multus itself: `Multus: [namespace/pod/uid]: action: cause`.
 * Errors of a network's plugins have a different text.
 *
 * Source: multus-cni pkg/multus/multus.go `cmdErr`.
 *
 * @returns An error with the code and details of the cause
 */
export function multusFailure(
  error: unknown,
  { k8s, action }: FailureContext = {},
): CniError {
  const cause = toCniError(error);
  const pod = k8s && `[${k8s.podNamespace}/${k8s.podName}/${k8s.podUid}]`;
  const text = ["Multus", pod, action, cause.message]
    .filter((part) => part !== undefined).join(": ");
  return withMessage(cause, text);
}

/**
 * Runs a step of multus itself.
 *
 * @throws {CniError} See {@linkcode multusFailure}
 */
export async function withMultusError<T>(
  context: FailureContext,
  run: () => T | Promise<T>,
): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw multusFailure(error, context);
  }
}
