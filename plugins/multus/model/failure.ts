/**
 * Error texts of multus itself. Alert rules and runbooks match their beginnings,
 * so these equal the Go version's.
 *
 * @module
 */

import { CniError, toCniError } from "../../../cni/error.ts";
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
 * Errors of a network's plugins have another text.
 *
 * Source: multus-cni pkg/multus/multus.go `cmdErr`.
 *
 * @returns An error with the code and details of the cause
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

/** The event about a network that a pod does not get. */
export interface NetworkEvent {
  readonly reason: "NoNetworkFound" | "NetworkRefused";
  readonly message: string;
}

/** A pod does not get a network; the pod's events say so. */
export class NetworkError extends CniError {
  readonly event: NetworkEvent;

  /**
   * Creates an error.
   *
   * @param message With the context of the failure
   * @param event Without the context
   */
  constructor(code: number, message: string, event: NetworkEvent) {
    super(code, message);
    this.event = event;
  }

  /** Returns the same error with another message. */
  withMessage(message: string): NetworkError {
    return new NetworkError(this.code, message, this.event);
  }
}

/** The API did not return a NetworkAttachmentDefinition. */
export class MissingNetworkError extends NetworkError {
  /**
   * Creates an error.
   *
   * @param code 7 if the network does not exist, 11 if the API cannot be asked
   * @param message With the context of the failure
   * @param eventMessage Without the context
   */
  constructor(code: number, message: string, eventMessage: string) {
    super(code, message, { reason: "NoNetworkFound", message: eventMessage });
  }

  override withMessage(message: string): MissingNetworkError {
    return new MissingNetworkError(this.code, message, this.event.message);
  }
}

/** Prefixes an error with the failed step; its class, code and details stay. */
export function inContext(context: string, error: unknown): CniError {
  const { code, message, details } = toCniError(error);
  const text = `${context}: ${message}`;
  return error instanceof NetworkError
    ? error.withMessage(text)
    : new CniError(code, text, { details });
}
