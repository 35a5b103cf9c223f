/**
 * The pools of a network, and the records in them.
 *
 * @module
 */

import type { Environment } from "../../base/process/environment.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import type { Log } from "../../base/log/log.ts";
import type { Cidr } from "../../net/cidr.ts";
import type { Ip } from "../../net/ip.ts";
import type { WhereaboutsApi } from "./api.ts";
import { type ClaimKey, recordOf } from "./claims/ipam_claim.ts";
import {
  type Allocation,
  type IpPool,
  offsetKey,
  parseOffset,
  poolName,
} from "./objects.ts";
import { parseRange, type Range, resolveRange } from "./range.ts";
import { findNodeName, rangesOf, type Settings } from "./settings.ts";

/** A range, and the name of the pool with its allocations. */
export interface Pool {
  readonly name: string;
  readonly range: Range;
}

/** The node has no usable slice of the range, so nothing can be allocated. */
export class NoSliceError extends CniError {}

/** The input of {@linkcode findPools}. */
export interface PoolSource {
  readonly settings: Settings;
  readonly api: WhereaboutsApi;
  /** Name of the network in the CNI configuration. */
  readonly network: string;
  readonly env: Environment;
}

/**
 * Finds the pools of a network. With `node_slice_size`, a range is replaced by
 * the node's slice of it.
 *
 * @throws {NoSliceError} 11 if the node has no slice yet, 7 if it is too small
 * @throws {KubeError} If the slices cannot be read
 */
export async function findPools(source: PoolSource): Promise<Pool[]> {
  const { settings } = source;
  const ranges = rangesOf(settings);
  if (!settings.node_slice_size) {
    return ranges.map((range) => poolOf(settings, range, ""));
  }
  const nodeName = findNodeName(settings, source.env);
  const slices = await findSlices(source, nodeName);
  return ranges.map((range, position) => {
    const slice = slices.find((slice) => range.cidr.containsCidr(slice));
    if (slice !== undefined) {
      return poolOf(settings, narrow(range, slice), nodeName);
    }
    // The controller slices the first range only.
    if (position > 0) return poolOf(settings, range, "");
    throw new NoSliceError(
      ErrorCode.TryAgainLater,
      `no allocated node slice for node "${nodeName}"`,
      { details: `in NodeSlicePool "${slicesNameOf(source)}"` },
    );
  });
}

function poolOf(
  { networkName }: Settings,
  range: Range,
  nodeName: string,
): Pool {
  const { cidr } = range;
  return { name: poolName({ networkName, nodeName, cidr }), range };
}

function slicesNameOf({ settings, network }: PoolSource): string {
  return settings.networkName || network;
}

async function findSlices(
  source: PoolSource,
  nodeName: string,
): Promise<Cidr[]> {
  const found = await source.api.findSlices(slicesNameOf(source));
  return (found?.status?.allocations ?? [])
    .filter((slice) => slice.nodeName === nodeName)
    .map(({ sliceRange }) => parseSlice(sliceRange));
}

function parseSlice(text: string): Cidr {
  try {
    return parseRange(text).cidr;
  } catch (cause) {
    throw new NoSliceError(
      ErrorCode.InvalidNetworkConfig,
      `the node's slice "${text}" cannot be used`,
      { cause },
    );
  }
}

/** Returns the part of a range that is in the slice. */
function narrow(range: Range, slice: Cidr): Range {
  const { first, last } = resolveRange(slice);
  return {
    ...range,
    cidr: slice,
    first: first.compare(range.first) < 0 ? range.first : first,
    last: last.compare(range.last) > 0 ? range.last : last,
  };
}

/** An allocation, and its address. */
export interface PoolRecord {
  readonly key: string;
  readonly offset: bigint;
  readonly ip: Ip;
  readonly value: Allocation;
}

/**
 * Lists the allocations of a pool. Keys that are not offsets in the network are
 * reported, and left alone.
 */
export function listRecords(
  pool: IpPool,
  cidr: Cidr,
  log: Pick<Log, "warn">,
): PoolRecord[] {
  const { network } = cidr;
  const records: PoolRecord[] = [];
  for (const [key, value] of Object.entries(pool.spec.allocations ?? {})) {
    const offset = parseOffset(cidr, key);
    if (offset === undefined) {
      const name = pool.metadata?.name;
      log.warn("Ignoring an allocation outside the range", { pool: name, key });
    } else records.push({ key, offset, ip: network.add(offset), value });
  }
  return records;
}

/** A claim's record, and its pool. */
export interface ClaimRecord {
  readonly pool: string;
  readonly key: string;
  readonly value: Allocation;
}

/**
 * Finds the record of an address that a claim has. The address has the prefix
 * of the range at the time of ADD, so this works after the ranges have changed.
 *
 * @throws {KubeError}
 */
export async function findClaimRecord(
  api: WhereaboutsApi,
  networkName: string,
  claim: ClaimKey,
  address: Cidr,
): Promise<ClaimRecord | undefined> {
  const cidr = address.masked();
  const pool = poolName({ networkName, nodeName: "", cidr });
  const key = offsetKey(cidr, address.ip);
  const value = (await api.findPool(pool))?.spec.allocations?.[key];
  if (value?.id !== recordOf(claim, "").id) return undefined;
  return { pool, key, value };
}
