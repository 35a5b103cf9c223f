/**
 * Records of addresses that are set aside, because other machines on the network
 * have them.
 *
 * @module
 */

import { SET_ASIDE_MS } from "../../cni/config/types.ts";
import type { Mac } from "../../net/mac.ts";
import type { Allocation } from "./objects.ts";
import { formatTime } from "../../base/time.ts";

/** An address that is set aside. */
export interface SetAside {
  /** The MAC of the machine that has it. */
  readonly mac: string;
  readonly sinceMs: number;
  readonly untilMs: number;
}

/**
 * Returns the record of an address that is set aside from now on. Like the record
 * of an IPAMClaim, it has no pod, so that the reference implementation leaves it
 * alone.
 */
export function setAsideRecord(mac: Mac, ifname: string): Required<Allocation> {
  return {
    id: `conflict/${formatTime(new Date())}/${mac}`,
    podref: "",
    ifname,
  };
}

/** Parses the record of an address that is set aside; undefined for other records. */
export function parseSetAside(
  { id, podref }: Pick<Allocation, "id" | "podref">,
): SetAside | undefined {
  const [, since = "", mac] = podref === ""
    ? /^conflict\/([^/]+)\/([\da-f:]{17})$/.exec(id) ?? []
    : [];
  const sinceMs = Date.parse(since);
  return mac === undefined || Number.isNaN(sinceMs)
    ? undefined
    : { mac, sinceMs, untilMs: sinceMs + SET_ASIDE_MS };
}

/** Reports whether the time of an address has expired that was set aside. */
export function isSetAsideOver({ sinceMs }: SetAside): boolean {
  // The clock might have been set back, or another node's be ahead.
  return Math.abs(Date.now() - sinceMs) >= SET_ASIDE_MS;
}
