/**
 * Errors about a network that a pod does not get.
 *
 * @module
 */

import {
  CniError,
  ErrorCode,
  toCniError,
  withMessage,
} from "../../../base/error.ts";
import type { AddressConflict } from "../../../cni/call/context.ts";

/** The event about a network that a pod does not get. */
export interface NetworkEvent {
  readonly reason:
    | "NoNetworkFound"
    | "NetworkRefused"
    | "NetworkMissing"
    | "AddressInUse";
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
  constructor(
    code: number,
    message: string,
    event: NetworkEvent,
    details = "",
  ) {
    super(code, message, { details });
    this.event = event;
  }

  /** Returns the same error with another message. */
  withMessage(message: string): NetworkError {
    return new NetworkError(this.code, message, this.event, this.details);
  }
}

/** Prefixes an error with the failed step; its class, code and details stay. */
export function inContext(context: string, error: unknown): CniError {
  const failure = toCniError(error);
  const text = `${context}: ${failure.message}`;
  return failure instanceof NetworkError
    ? failure.withMessage(text)
    : withMessage(failure, text);
}

/**
 * Returns the event for an address that a pod does not get.
 *
 * @param network The network as `Delegate.name`
 */
export function addressInUse(
  { ip, mac, ifName, instead }: AddressConflict,
  network: string,
): NetworkEvent {
  const outcome = instead === undefined
    ? `${ifName} gets no address`
    : `${ifName} gets ${instead}`;
  return {
    reason: "AddressInUse",
    message: `${ip} of ${network} is in use by ${mac}: ${outcome}`,
  };
}

/** Returns the error for what the node's settings do not allow. */
export function refusal(message: string): NetworkError {
  return new NetworkError(ErrorCode.InvalidNetworkConfig, message, {
    reason: "NetworkRefused",
    message,
  });
}
