/**
 * How multus words its own failures. Alert rules and runbooks look for the
 * beginning of these texts, so it is the Go version's, to the byte.
 *
 * @module
 */

import { CniError, toCniError } from "../../cni/error.ts";
import type { K8sArgs } from "./pod/k8s_args.ts";

/** The parts of a failure's text that come before its cause. */
export interface FailureContext {
  /** The pod; left out in STATUS and GC, and before CNI_ARGS are read. */
  readonly k8s?: K8sArgs;
  /** The step that failed, such as `error saving the delegates`. */
  readonly action?: string;
}

/**
 * Makes an error of multus itself: `Multus: [namespace/pod/uid]: action: cause`.
 * Failures of a network's plugins have another text.
 *
 * Source: multus-cni pkg/multus/multus.go `cmdErr`.
 *
 * @returns An error with the code and the details of the cause
 */
export function multusFailure(
  error: unknown,
  { k8s, action }: FailureContext = {},
): CniError {
  const { code, message, details } = toCniError(error);
  const pod = k8s && `[${k8s.podNamespace}/${k8s.podName}/${k8s.podUid}]`;
  const text = ["Multus", pod, action, message]
    .filter((part) => part !== undefined).join(": ");
  return new CniError(code, text, { details });
}

/**
 * Runs a step of multus itself.
 *
 * @throws {CniError} As {@linkcode multusFailure}
 */
export async function asMultus<T>(
  context: FailureContext,
  run: () => T | Promise<T>,
): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw multusFailure(error, context);
  }
}

/** A NetworkAttachmentDefinition that the API does not answer with. */
export class MissingNetworkError extends CniError {
  /** What a NoNetworkFound event shall say. */
  readonly eventMessage: string;

  /**
   * Makes an error.
   *
   * @param code 7 if there is no such network, 11 if the API could not tell
   * @param message With what was being done
   * @param eventMessage Without
   */
  constructor(code: number, message: string, eventMessage: string) {
    super(code, message);
    this.eventMessage = eventMessage;
  }
}

/** Makes an error say what was being done, and stay of its kind. */
export function inContext(context: string, error: unknown): CniError {
  const { code, message, details } = toCniError(error);
  const text = `${context}: ${message}`;
  return error instanceof MissingNetworkError
    ? new MissingNetworkError(code, text, error.eventMessage)
    : new CniError(code, text, { details });
}
