/**
 * Address conflicts: addresses that other machines on the network use. A plugin that
 * detects a conflict runs ADD of its IPAM plugin again, with the conflicts in the
 * configuration. An IPAM plugin with the trait "replaces addresses" sets these addresses
 * aside, and assigns different addresses in their place. The attachment keeps its other
 * addresses.
 *
 * Only this project's plugins set the key. Other IPAM plugins ignore it.
 *
 * @module
 */

import * as z from "zod/mini";
import { decode } from "../../base/json/json.ts";
import type { Ip } from "../../net/ip.ts";
import { Mac } from "../../net/mac.ts";
import { CONFLICTS, ipSchema, optional, parsedText } from "./types.ts";

/** An address, and the machine that also has it. */
export interface Conflict {
  /** The address. */
  readonly ip: Ip;
  /** The hardware address of the machine that answered. */
  readonly mac: Mac;
}

/**
 * Decodes the conflicts in a configuration.
 *
 * @throws {CniError} 7 if they are malformed
 */
export function decodeConflicts(config: object): readonly Conflict[] {
  const conflict = z.object({ ip: ipSchema(), mac: parsedText(Mac.parse) });
  const { [CONFLICTS]: conflicts = [] } = decode(
    z.looseObject({ [CONFLICTS]: optional(z.array(conflict)) }),
    config,
    "network configuration",
  );
  return conflicts;
}

/** At most one in `SHARE` addresses of a range can be set aside, and at most `MOST`. */
const SHARE = 4n, MOST = 64n;

/**
 * Reports whether another address of a range can be set aside. A machine that answers
 * for every address must not exhaust the range.
 *
 * @param count The number of addresses that are set aside
 * @param all The number of addresses of the range
 */
export function maySetAside(count: number, all: bigint): boolean {
  const share = all / SHARE;
  return count < (share < 1n ? 1n : share < MOST ? share : MOST);
}
