/**
 * Why a pod does not get the addresses of an IPAMClaim.
 *
 * @module
 */

import { CniError, ErrorCode, invalidConfig } from "../../../base/error.ts";
import type { Ip } from "../../../net/ip.ts";

/** An address that was wanted is another's. */
export class ConflictError extends CniError {
  /** Who has it. */
  readonly why: string;

  /** Creates the error for a claim's address. */
  constructor(ip: Ip, why: string) {
    super(
      ErrorCode.TryAgainLater,
      `the IPAMClaim's address ${ip} is not free: ${why}`,
      { details: "to get a different address, empty the claim's status.ips" },
    );
    this.why = why;
  }
}

/** The claim's address is not free; an administrator must decide. */
export function conflict(ip: Ip, why: string): ConflictError {
  return new ConflictError(ip, why);
}

/** The claim's address is in no range, and was not allocated before. */
export function outside(ip: Ip): CniError {
  return invalidConfig(
    `the IPAMClaim's address ${ip} is in none of the ranges`,
  );
}

/** The claim belongs to another interface of the pod. */
export function otherInterface(ifName: string | undefined): CniError {
  return invalidConfig(
    `the IPAMClaim has the addresses of interface "${ifName}": each ` +
      "interface needs a claim of its own",
  );
}

/** The claim does not exist, or is being deleted. */
export function notThere(name: string, why: string): CniError {
  return new CniError(
    ErrorCode.TryAgainLater,
    `IPAMClaim "${name}" ${why}`,
  );
}

/** Another pod has the addresses. */
export function inUseBy(name: string, pod: string): CniError {
  return new CniError(
    ErrorCode.TryAgainLater,
    `IPAMClaim "${name}" is in use by pod "${pod}"`,
  );
}

/** The claim, or the configuration, does not fit the pod. */
export function unfit(name: string, why: string): CniError {
  return invalidConfig(`IPAMClaim "${name}" ${why}`);
}
