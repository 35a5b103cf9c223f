/**
 * Leases of deleted containers, which are ended when no address is free.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { ifPossible } from "../../../base/files/io.ts";
import { dataDirOf } from "../config.ts";
import { containerOf, type Lease } from "../lease.ts";
import { listLeases } from "../orphans.ts";
import {
  type AllocatingCall,
  CACHES,
  findStore,
  gatherEvidence,
  GRACE_MS,
  identify,
  listReasons,
  lookTwice,
  type Reasons,
} from "./evidence.ts";

/** Minimum time between two searches, in ms: while a range is full, each ADD would search. */
const REST_MS = 10_000;
/** Directory beside the networks' with a file for each: the time of the last search. */
const MARKS = ".judged";

/**
 * Ends the leases of containers that were certainly deleted. Does not lock the leases
 * during the search.
 *
 * @param graceMs Younger leases are kept, in ms
 * @returns Whether it has ended a lease; false within ten seconds of an earlier search
 * @throws {CniError} 5 if a lease cannot be ended, 11 if other processes hold the lock
 */
export async function endDeadLeases(
  call: AllocatingCall,
  graceMs: number = GRACE_MS,
): Promise<boolean> {
  if (isLookedAt(call) || !mark(call)) return false;
  const reasons = await lookTwice(call, () => findDead(call, graceMs));
  if (reasons.size === 0) return false;
  using store = await findStore(call);
  const dead = (store?.leasesOfOthers([]) ?? [])
    .filter((lease) => reasons.has(identify(lease)));
  store?.release(dead);
  for (const lease of dead) {
    call.log.warn(
      "No address is free: released the lease of a deleted container",
      {
        address: String(lease.ip),
        of: containerOf(lease.content),
        why: reasons.get(identify(lease)),
      },
    );
  }
  return dead.length > 0;
}

/** Returns the path of the file whose time is the time of the last search. */
function markOf({ config, network }: AllocatingCall): string {
  return `${dataDirOf(config)}/${MARKS}/${network}`;
}

/** Reports whether the last search was a moment ago. */
function isLookedAt(call: AllocatingCall): boolean {
  const { mtime } = ifPossible(() => Deno.statSync(markOf(call))) ?? {};
  const last = mtime?.getTime() ?? 0;
  return Math.abs(Date.now() - last) < REST_MS;
}

/** Records the time of this search; returns false if that is impossible. */
function mark(call: AllocatingCall): boolean {
  const path = markOf(call);
  const seconds = Date.now() / 1000;
  // Where nothing can be written, no lease can be ended.
  return ifPossible(() => {
    Deno.mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    Deno.writeTextFileSync(path, "", { mode: 0o600 });
    Deno.utimeSync(path, seconds, seconds);
    return true;
  }) ?? false;
}

/**
 * Finds the leases of deleted containers, with the evidence. Finds none if some of the
 * node's processes are hidden.
 */
async function findDead(
  call: AllocatingCall,
  graceMs: number,
): Promise<Reasons> {
  const evidence = await gatherEvidence(call, {
    caches: CACHES,
    leases: listLeases([dataDirOf(call.config)]),
    graceMs,
  });
  if (evidence === undefined) return new Map();
  return listReasons(await listOwned(call), ({ ip, content }, since) => {
    const container = containerOf(content);
    return evidence.findReason({ container, addresses: [ip], since });
  });
}

async function listOwned(call: AllocatingCall): Promise<Lease[]> {
  using store = await findStore(call);
  return store?.leasesOfOthers([]) ?? [];
}
