/**
 * Finds out whether the holders of leases are alive, when no address is free.
 *
 * The evidence is that of `cni gc --orphans`: a holder is dead only if no namespace
 * has its address, and no process, runtime or cached attachment has the container.
 *
 * @module
 */

import { pause } from "../../base/deadline.ts";
import { describeError } from "../../base/error.ts";
import { ifPossible } from "../../base/files/io.ts";
import { MULTUS_CACHE_DIR } from "../../cni/config/types.ts";
import type { Call } from "../../cni/plugin.ts";
import type { Evidence } from "../../metadata/leftovers.ts";
import { dataDirOf } from "./config.ts";
import { listLeases } from "./leftovers.ts";
import { containerOf, type Lease, parseSticky } from "./lease.ts";
import type { HostLocalConfig } from "./schema.ts";
import { LeaseStore } from "./store.ts";

/** Younger leases are of living containers, in ms. */
const GRACE_MS = 60_000;
/** Time between two looks, which must agree, in ms. */
const BETWEEN_MS = 200;
/** How long nobody looks again, in ms: each call would, as long as a range is full. */
const REST_MS = 10_000;
/** Directory beside the networks' with a file for each: when the last look was. */
const MARKS = ".judged";
/** Default directories of cached attachments. */
export const CACHES = ["/var/lib/cni", MULTUS_CACHE_DIR];

/** A call that needs an address. */
export type AllocatingCall = Pick<
  Call<HostLocalConfig>,
  "config" | "network" | "hostNetns" | "log" | "signal"
>;

/**
 * Ends the leases of a network whose containers are certainly deleted. Does not
 * lock the leases while it looks.
 *
 * @param graceMs Younger leases are kept, in ms
 * @returns Whether it has ended any; false within ten seconds of another look
 * @throws {CniError} 5 if a lease cannot be ended, 11 if others keep the lock
 */
export async function endDeadLeases(
  call: AllocatingCall,
  graceMs: number = GRACE_MS,
): Promise<boolean> {
  if (!mark(call)) return false;
  const first = await findDead(call, graceMs);
  if (first.size === 0) return false;
  // A process may have been overlooked that was just taking over a namespace.
  await pause(BETWEEN_MS, call.signal);
  const again = await findDead(call, graceMs);
  using store = await open(call);
  const dead = (store?.leasesOfOthers([]) ?? []).filter((lease) =>
    first.has(identify(lease)) && again.has(identify(lease))
  );
  store?.releaseOrKeep(dead);
  for (const lease of dead) {
    call.log.warn(
      "No address is free: released the lease of a deleted container",
      {
        address: String(lease.ip),
        of: containerOf(lease.content),
        why: again.get(identify(lease)),
      },
    );
  }
  return dead.length > 0;
}

/** Reports whether the last look is long ago, and notes this one. */
function mark({ config, network }: AllocatingCall): boolean {
  const directory = `${dataDirOf(config)}/${MARKS}`;
  const path = `${directory}/${network}`;
  const last = ifPossible(() => Deno.statSync(path).mtime)?.getTime() ?? 0;
  const now = Date.now();
  if (Math.abs(now - last) < REST_MS) return false;
  // Where nothing can be written, no lease can be ended.
  return ifPossible(() => {
    Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
    Deno.writeTextFileSync(path, "", { mode: 0o600 });
    Deno.utimeSync(path, now / 1000, now / 1000);
    return true;
  }) ?? false;
}

async function open(call: AllocatingCall): Promise<LeaseStore | undefined> {
  return await LeaseStore.find(dataDirOf(call.config), call.network, call);
}

function identify({ ip, content }: Lease): string {
  return `${ip} ${content}`;
}

/** Finds leases of deleted containers, and why they are known to be deleted. */
async function findDead(
  call: AllocatingCall,
  graceMs: number,
): Promise<Map<string, string>> {
  const dead = new Map<string, string>();
  const evidence = await gather(call, graceMs);
  if (evidence === undefined) return dead;
  for (const lease of await listOwned(call)) {
    const { ip, path, content } = lease;
    const container = containerOf(content);
    const since = ifPossible(() => Deno.statSync(path).mtime) ?? undefined;
    const reason = since &&
      evidence.findReason({ container, addresses: [ip], since });
    if (reason !== undefined) dead.set(identify(lease), reason.why);
  }
  return dead;
}

/** Lists the leases of containers; others stay for a name. */
async function listOwned(call: AllocatingCall): Promise<Lease[]> {
  using store = await open(call);
  return (store?.leasesOfOthers([]) ?? [])
    .filter(({ content }) => parseSticky(content) === undefined);
}

/** @returns Undefined if some of the node's processes are hidden from this one */
async function gather(
  { config, hostNetns, log }: AllocatingCall,
  graceMs: number,
): Promise<Evidence | undefined> {
  const { NodeEvidence } = await import(
    "../../plugins/parts/evidence/evidence.ts"
  );
  const leases = listLeases([dataDirOf(config)]);
  try {
    const sight = { hostNetns, caches: CACHES, leases, graceMs };
    const evidence = await NodeEvidence.gather(sight);
    if (evidence.isWhole) return evidence;
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
