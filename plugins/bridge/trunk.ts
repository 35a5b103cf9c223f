/**
 * The VLANs that pass a port with their tags: `vlanTrunk`.
 *
 * @module
 */

import { CniError, invalidConfig } from "../../base/error.ts";
import type { TrunkItem } from "./schema.ts";

/** The highest VLAN ID; 4095 is reserved. */
export const MAX_VLAN = 4094;

/** VLANs with consecutive IDs. */
export interface VlanRange {
  /** 1 to 4094. */
  readonly first: number;
  /** Equals `first` for a single VLAN. */
  readonly last: number;
}

/**
 * Collects the VLANs of a trunk into sorted ranges without duplicates.
 *
 * Source: containernetworking/plugins plugins/main/bridge/bridge.go
 * `collectVlanTrunk`, with its error texts.
 *
 * @throws {CniError} 7 if an item is invalid
 */
export function trunkRangesOf(items: readonly TrunkItem[]): VlanRange[] {
  const ids = new Set(items.flatMap(idsOf));
  return rangesOf([...ids].sort((left, right) => left - right));
}

function idsOf({ id, ...range }: TrunkItem): number[] {
  const ids = idsBetween(range);
  return id === undefined ? ids : [...ids, checked("id", id)];
}

function idsBetween({ minID, maxID }: TrunkItem): number[] {
  if (minID === undefined && maxID === undefined) return [];
  if (minID === undefined) throw incomplete("minID");
  if (maxID === undefined) throw incomplete("maxID");
  const first = checked("minID", minID), last = checked("maxID", maxID);
  if (last < first) {
    throw invalidConfig("minID is greater than maxID in trunk parameter");
  }
  return Array.from({ length: last - first + 1 }, (_, at) => first + at);
}

function checked(key: string, id: number): number {
  if (id > 0 && id <= MAX_VLAN) return id;
  throw invalidConfig(`incorrect trunk ${key} parameter`);
}

function incomplete(key: string): CniError {
  return invalidConfig(
    `minID and maxID should be configured simultaneously, ${key} is missing`,
  );
}

/** @param ids In ascending order */
function rangesOf(ids: readonly number[]): VlanRange[] {
  const ranges: VlanRange[] = [];
  for (const id of ids) {
    const before = ranges.at(-1);
    if (before?.last === id - 1) {
      ranges[ranges.length - 1] = { ...before, last: id };
    } else ranges.push({ first: id, last: id });
  }
  return ranges;
}
