/**
 * What a configuration of host-local asks for.
 *
 * @module
 */

import { type CmdArgs, loadArgs } from "../../cni/args.ts";
import { CniError, ErrorCode } from "../../cni/error.ts";
import { checkOnePerFamily } from "../../cni/one_per_family.ts";
import type { Ip } from "../../net/ip.ts";
import {
  checkDisjoint,
  type RangeConfig,
  type RangeSet,
  resolveRangeSet,
} from "./range.ts";
import { parseRequestedIp } from "./requested_ip.ts";
import type { HostLocalConfig } from "./schema.ts";

/** Where leases are kept unless the configuration says otherwise. */
const DEFAULT_DATA_DIR = "/var/lib/cni/networks";

/** Returns the folder that has one folder for each network. */
export function dataDirOf({ ipam }: HostLocalConfig): string {
  return ipam?.dataDir || DEFAULT_DATA_DIR;
}

/**
 * Returns the range sets, of each of which an attachment gets one address:
 * the runtime's, then the single range, then the list.
 *
 * @throws {CniError} 7 if there is none, or they contradict each other
 */
export function rangeSetsOf(
  { ipam, runtimeConfig }: HostLocalConfig,
  cniVersion: string,
): RangeSet[] {
  if (ipam === undefined) {
    throw invalid("IPAM config missing 'ipam' key");
  }
  const { subnet, ...bounds } = ipam;
  if (subnet === undefined && (bounds.exclude ?? []).length > 0) {
    // Or the addresses would be handed out that somebody wants to keep.
    throw invalid('"exclude" is of no range: give it to those of "ranges"');
  }
  const configs: RangeConfig[][] = [
    ...runtimeConfig?.ipRanges ?? [],
    ...subnet === undefined ? [] : [[{ ...bounds, subnet }]],
    ...ipam.ranges ?? [],
  ];
  if (configs.length === 0) throw invalid("no IP ranges specified");
  const sets = configs.map(resolveRangeSet);
  checkOnePerFamily(
    sets.map(([range]) => range?.subnet.family),
    cniVersion,
  );
  checkDisjoint(sets);
  return sets;
}

/**
 * Returns the addresses that were asked for: by CNI_ARGS, the configuration's
 * `args`, and the runtime, in this order. What several of them ask for is
 * listed once.
 *
 * @throws {CniError} 4 if CNI_ARGS cannot be read, or has a key that is not known
 */
export function requestedIpsOf(
  { args, runtimeConfig }: HostLocalConfig,
  { args: cniArgs }: CmdArgs,
): Ip[] {
  const ips = [
    ...requestedInArgs(cniArgs),
    ...args?.cni?.ips ?? [],
    ...runtimeConfig?.ips ?? [],
  ];
  return [...new Map(ips.map((ip) => [ip.toString(), ip])).values()];
}

function requestedInArgs(cniArgs: string): Ip[] {
  const { IP } = loadArgs<{ IP: Ip }>(cniArgs, { IP: parseRequestedIp });
  return IP === undefined ? [] : [IP];
}

function invalid(message: string): CniError {
  return new CniError(ErrorCode.InvalidNetworkConfig, message);
}
