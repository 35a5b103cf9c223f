/**
 * What the daemon needs of DHCP for an address family.
 *
 * @module
 */

import type { Result } from "../../cni/result/result.ts";
import type { ClientOptions, DeclineLimit } from "./client.ts";
import type { Lease, LeaseRequest } from "./lease.ts";
import type { Port } from "./port.ts";

/** How old a lease is, and at what age something is due, in seconds. */
export interface LeaseTimes {
  readonly age: number;
  readonly renewal: number;
  readonly rebinding: number;
  readonly expiry: number;
}

/** How to ask, and until when. */
export interface Asking extends ClientOptions {
  readonly signal: AbortSignal;
  /** Which addresses that other hosts have are declined; the rest is released. */
  readonly declines: DeclineLimit;
}

/** How to extend a lease. */
export interface Extending extends Asking {
  /** Whether any server may answer. */
  readonly asksAll: boolean;
  /** Whether this daemon was restarted, and might have missed changes. */
  readonly isReboot: boolean;
}

/** DHCP for an address family. */
export interface LeaseProtocol<L extends Lease> {
  /** Returns what happens to the container when a lease has ended, for a warning. */
  lossOf(lease: L): string;
  /**
   * Makes an attempt to get a lease.
   *
   * @throws {CniError} 11 if no server answers until the signal
   */
  acquire(port: Port, request: LeaseRequest, asking: Asking): Promise<L>;
  /**
   * Extends a lease, and makes the changes of the server in the container.
   *
   * @throws {RefusedError} If the server refuses
   * @throws {CniError} 11 if no server answers until the signal
   */
  extend(port: Port, lease: L, extending: Extending): Promise<L>;
  /** Tells the server that a lease is no longer needed. */
  release(port: Port, lease: L): Promise<void>;
  /**
   * Informs the server that a different host has the address, if it is the plugin of the
   * interface that finds out.
   */
  decline?(port: Port, lease: L): void;
  /** Removes the addresses of an expired lease from the container. */
  lose(port: Port, lease: L): void;
  /**
   * Puts back addresses that the container lacks, if it is the daemon that assigns
   * them.
   *
   * @returns Whether there were any
   * @throws {RefusedError} If a different host has an address, which is then declined
   */
  putBack?(port: Port, lease: L, declines: DeclineLimit): Promise<boolean>;
  /** Makes an attempt to get a lease for the container again, and restores it. */
  regain(port: Port, before: L, asking: Asking): Promise<L>;
  /** Returns what is due when. */
  timesOf(lease: L): LeaseTimes;
  /**
   * Builds the result of a lease.
   *
   * @throws {CniError} 999 if the server omitted required options
   */
  resultOf(lease: L): Result;
}

/** Adds the date for people. */
export function withExpiry<L extends Lease>(
  lease: L,
  { expiry }: LeaseTimes,
): L {
  return {
    ...lease,
    expires: new Date(Date.now() + 1000 * expiry).toISOString(),
  };
}
