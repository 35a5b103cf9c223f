/**
 * Errors about a network to which a pod is not attached.
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

/** The event about a network to which a pod is not attached. */
export interface NetworkEvent {
  readonly reason:
    | "NoNetworkFound"
    | "NetworkRefused"
    | "NetworkMissing"
    | "AddressInUse";
  readonly message: string;
}

/** A pod is not attached to a network, which an event of the pod reports. */
export class NetworkError extends CniError {
  readonly event: NetworkEvent;

  /**
   * Creates an error.
   *
   * @param message Contains the context of the failure
   * @param event Does not contain the context
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

  /** Returns the same error with a different message. */
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
 * Returns the event for an address that a pod cannot get.
 *
 * @param network The network, see `Delegate.name`
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

/** Returns the error for a request that the node's settings do not permit. */
export function refusal(message: string): NetworkError {
  return new NetworkError(ErrorCode.InvalidNetworkConfig, message, {
    reason: "NetworkRefused",
    message,
  });
}
