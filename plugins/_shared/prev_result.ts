/**
 * What interface plugins and chained plugins look for in a prevResult.
 *
 * @module
 */

import type { CmdArgs } from "../../cni/args.ts";
import { describeError } from "../../cni/error.ts";
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
