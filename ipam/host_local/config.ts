/**
 * Reads the configuration of host-local.
 *
 * @module
 */

import { type CmdArgs, loadArgs } from "../../cni/call/args.ts";
import { invalidConfig } from "../../base/error.ts";
import { checkOnePerFamily } from "../../cni/result/one_per_family.ts";
import type { Ip } from "../../net/ip.ts";
import {
  checkDisjoint,
  type RangeConfig,
  type RangeSet,
  resolveRangeSet,
} from "./range.ts";
import { type HostLocalConfig, parseRequestedIp } from "./schema.ts";

/** Default directory of the leases. */
const DEFAULT_DATA_DIR = "/var/lib/cni/networks";

/** Returns the directory with the networks' lease directories. */
export function dataDirOf({ ipam }: HostLocalConfig): string {
  return ipam?.dataDir || DEFAULT_DATA_DIR;
}

/**
 * Returns the range sets; an attachment gets an address from each set. First come
 * the runtime's, then the single range, then the list.
 *
 * @throws {CniError} 7 without range sets, or if they are invalid or contradict
 *   each other
 */
export function rangeSetsOf(
  { ipam, runtimeConfig }: HostLocalConfig,
  cniVersion: string,
): RangeSet[] {
  if (ipam === undefined) {
    throw invalidConfig("IPAM config missing 'ipam' key");
  }
  const { subnet, ...bounds } = ipam;
  if (subnet === undefined && (bounds.exclude ?? []).length > 0) {
    // Otherwise withheld addresses would be allocated.
    throw invalidConfig(
      '"exclude" belongs to no range: move it into the ranges of "ranges"',
    );
  }
  const configs: RangeConfig[][] = [
    ...runtimeConfig?.ipRanges ?? [],
    ...subnet === undefined ? [] : [[{ ...bounds, subnet }]],
    ...ipam.ranges ?? [],
  ];
  if (configs.length === 0) throw invalidConfig("no IP ranges specified");
  const sets = configs.map(resolveRangeSet);
  checkOnePerFamily(
    sets.map(([range]) => range?.subnet.family),
    cniVersion,
  );
  checkDisjoint(sets);
  return sets;
}

/**
 * Returns the requested addresses without duplicates: first from CNI_ARGS, then
 * from the configuration's `args`, then from the runtime.
 *
 * @throws {CniError} 4 if CNI_ARGS is malformed or has an unknown key
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
  // multus joins the addresses that a pod requests.
  const { IP } = loadArgs<{ IP: Ip[] }>(cniArgs, {
    IP: (list) => list.split(",").map((ip) => parseRequestedIp(ip.trim())),
  });
  return IP ?? [];
}
