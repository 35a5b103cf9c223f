/**
 * What interface plugins and chained plugins look for in a prevResult.
 *
 * @module
 */

import type { CmdArgs } from "../../cni/args.ts";
import { CniError, describeError, ErrorCode } from "../../cni/error.ts";
import type { Call } from "../../cni/plugin.ts";
import type { IpConfig, Result } from "../../cni/result.ts";
import type { Cidr } from "../../net/cidr.ts";

/**
 * Reads prevResult as a tear-down must: one that cannot be read is done without.
 */
export function readablePrevResult(
  call: Pick<Call, "prevResult" | "log">,
): Result | undefined {
  try {
    return call.prevResult;
  } catch (error) {
    call.log.warn("Ignoring prevResult", { problem: describeError(error) });
    return undefined;
  }
}

/**
 * Returns the prevResult that a CHECK must be given.
 *
 * @param message What is said if there is none
 * @throws {CniError} 7 if there is none; 6 or 7 if it cannot be read
 */
export function requirePrevResult(
  { prevResult }: Pick<Call, "prevResult">,
  message: string,
): Result {
  if (prevResult !== undefined) return prevResult;
  throw new CniError(ErrorCode.InvalidNetworkConfig, message);
}

/**
 * Lists the addresses of the call's interface: those that name it, and those
 * that name none.
 */
export function ownIpsOf(result: Result, { ifName }: CmdArgs): IpConfig[] {
  return result.ips.filter(({ interface: index }) =>
    index === undefined || result.interfaces[index]?.name === ifName
  );
}

/** Lists the same addresses with the prefix lengths of their networks. */
export function addressesOf(result: Result, args: CmdArgs): Cidr[] {
  return ownIpsOf(result, args).map(({ address }) => address);
}

/** Leaves out addresses and routes that chained plugins gave to other interfaces. */
export function ownPartOf(result: Result, args: CmdArgs): Result {
  const ips = ownIpsOf(result, args);
  const others = result.ips.filter((ip) => !ips.includes(ip));
  return {
    ...result,
    ips,
    routes: result.routes.filter(({ gw }) =>
      gw === undefined || !others.some(({ address }) => address.contains(gw))
    ),
  };
}
