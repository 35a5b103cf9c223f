/**
 * Evidence of whether the holders of leases are alive.
 *
 * It is the evidence of `cni gc --orphans`: a holder is dead only if no namespace
 * has its address, and no process, runtime or cached attachment has the container.
 *
 * @module
 */

import { pause } from "../../../base/deadline.ts";
import { describeError } from "../../../base/error.ts";
import { ifPossible } from "../../../base/files/io.ts";
import { MULTUS_CACHE_DIR } from "../../../cni/config/types.ts";
import type { Call } from "../../../cni/plugin.ts";
import type {
  Evidence,
  FoundLease,
  Reason,
} from "../../../metadata/orphans.ts";
import { dataDirOf } from "../config.ts";
import type { Lease } from "../lease.ts";
import type { HostLocalConfig } from "../schema.ts";
import { LeaseStore } from "../store.ts";

/** Leases younger than this belong to running containers, in ms. */
export const GRACE_MS = 60_000;
/** Time between two checks, which must agree, in ms. */
const BETWEEN_MS = 200;
/** Default directories of cached attachments. */
export const CACHES = ["/var/lib/cni", MULTUS_CACHE_DIR];

/** A call that needs an address. */
export type AllocatingCall = Pick<
  Call<HostLocalConfig>,
  "config" | "network" | "hostNetns" | "log" | "signal"
>;

/** The evidence that the containers of leases were deleted, by lease. */
export type Reasons = Map<string, string>;

/** Returns the reasons of leases that two checks have in common. */
export async function lookTwice(
  { signal }: AllocatingCall,
  look: () => Promise<Reasons>,
): Promise<Reasons> {
  const first = await look();
  if (first.size === 0) return first;
  // A process that was entering a namespace might have been missed.
  await pause(BETWEEN_MS, signal);
  const again = await look();
  return new Map([...again].filter(([lease]) => first.has(lease)));
}

/** Returns when a lease was made; undefined if it does not exist. */
function writtenAt(path: string): Date | undefined {
  return ifPossible(() => Deno.statSync(path).mtime) ?? undefined;
}

/** Returns a key that distinguishes a lease from later leases of its address. */
export function identify({ ip, content }: Lease): string {
  return `${ip} ${content}`;
}

/** Opens the leases of the network, if there are any. */
export async function findStore(
  call: AllocatingCall,
): Promise<LeaseStore | undefined> {
  return await LeaseStore.find(dataDirOf(call.config), call.network, call);
}

/** Lists why leases are known to be of deleted containers. */
export function listReasons(
  leases: readonly Lease[],
  findReason: (lease: Lease, since: Date) => Reason | undefined,
): Reasons {
  const reasons: Reasons = new Map();
  for (const lease of leases) {
    const since = writtenAt(lease.path);
    const reason = since && findReason(lease, since);
    if (reason !== undefined) reasons.set(identify(lease), reason.why);
  }
  return reasons;
}

/**
 * Looks at the node's processes, namespaces and cached attachments. Never throws.
 *
 * @returns Undefined if processes of the node are hidden from this process
 */
export async function gatherEvidence(
  { hostNetns, log }: AllocatingCall,
  sight: {
    readonly caches: readonly string[];
    readonly leases: readonly FoundLease[];
    readonly graceMs: number;
  },
): Promise<Evidence | undefined> {
  const { NodeEvidence } = await import(
    "../../../plugins/parts/evidence/evidence.ts"
  );
  try {
    const evidence = await NodeEvidence.gather({ hostNetns, ...sight });
    const { isWhole, unread: reason } = evidence;
    if (reason !== undefined) {
      log.warn("Cannot determine which containers were deleted", { reason });
    }
    if (isWhole) return evidence;
    log.debug(
      "Cannot determine which containers were deleted: processes are hidden",
    );
  } catch (error) {
    log.warn("Cannot determine which containers were deleted", {
      error: describeError(error),
    });
  }
  return undefined;
}
