/**
 * Finds out whether the holders of leases are alive, when no address is free, or
 * when a container whose DEL was lost is started again.
 *
 * The evidence is that of `cni gc --orphans`: a holder is dead only if no namespace
 * has its address, and no process, runtime or cached attachment has the container.
 * A container that is started again is known to its runtime; the namespaces decide.
 *
 * @module
 */

import { pause } from "../../../base/deadline.ts";
import { describeError } from "../../../base/error.ts";
import { ifPossible } from "../../../base/files/io.ts";
import { findFileId } from "../../../base/files/same_file.ts";
import { MULTUS_CACHE_DIR } from "../../../cni/config/types.ts";
import type { Call } from "../../../cni/plugin.ts";
import type {
  Evidence,
  FoundLease,
  Reason,
} from "../../../metadata/leftovers.ts";
import { dataDirOf } from "../config.ts";
import { listLeases } from "../leftovers.ts";
import { containerOf, type Lease, parseSticky } from "../lease.ts";
import type { HostLocalConfig } from "../schema.ts";
import { LeaseStore } from "../store.ts";

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
  const reasons = await lookTwice(call, () => findDead(call, graceMs));
  if (reasons.size === 0) return false;
  using store = await open(call);
  const dead = (store?.leasesOfOthers([]) ?? [])
    .filter((lease) => reasons.has(identify(lease)));
  store?.releaseOrKeep(dead);
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

/**
 * Finds the leases that a container has from before it was started again: its
 * runtime could not run DEL, because the machine or the runtime was restarted.
 *
 * @param graceMs Younger leases are left out, in ms
 */
export async function findOwnDeadLeases(
  call: AllocatingCall & Pick<Call, "args">,
  graceMs: number = GRACE_MS,
): Promise<Lease[]> {
  const leases = await listOwn(call);
  const isYoung = ({ path }: Lease): boolean =>
    Math.abs(Date.now() - (writtenAt(path)?.getTime() ?? 0)) < graceMs;
  if (leases.every(isYoung)) return [];
  const reasons = await lookTwice(
    call,
    () => findOwnDead(call, leases, graceMs),
  );
  const dead = leases.filter((lease) => reasons.has(identify(lease)));
  for (const lease of dead) {
    call.log.warn("The container was started again without DEL", {
      address: String(lease.ip),
      why: reasons.get(identify(lease)),
    });
  }
  return dead;
}

async function listOwn(
  call: AllocatingCall & Pick<Call, "args">,
): Promise<Lease[]> {
  using store = await open(call);
  return store?.leasesOf(call.args) ?? [];
}

async function findOwnDead(
  call: AllocatingCall & Pick<Call, "args">,
  leases: readonly Lease[],
  graceMs: number,
): Promise<Reasons> {
  const evidence = await gather(call, { caches: [], leases: [], graceMs });
  if (evidence === undefined) return new Map();
  const { hasInterface } = await import(
    "../../../plugins/parts/sandbox/second_add.ts"
  );
  const { eachCached, netnsOf } = await import(
    "../../../plugins/parts/evidence/evidence.ts"
  );
  const { containerId, ifName, netns } = call.args;
  // A virtual machine has its address inside, where no namespace shows it.
  const isAttached = (path: string): boolean =>
    findFileId(path) === findFileId(netns)
      ? hasInterface(netns, ifName)
      : evidence.isAlive(path);
  const isCached = eachCached(CACHES).some((attachment) =>
    attachment.containerId === containerId && attachment.ifName === ifName &&
    isAttached(netnsOf(attachment))
  );
  if (isCached) return new Map();
  // Without its ID: the runtime has the container that it starts.
  return listReasons(
    leases,
    ({ ip }, since) => evidence.findReason({ addresses: [ip], since }),
  );
}

/** Why leases are known to be of deleted containers, by lease. */
type Reasons = Map<string, string>;

/** Returns what two looks agree on. */
async function lookTwice(
  { signal }: AllocatingCall,
  look: () => Promise<Reasons>,
): Promise<Reasons> {
  const first = await look();
  if (first.size === 0) return first;
  // A process may have been overlooked that was just taking over a namespace.
  await pause(BETWEEN_MS, signal);
  const again = await look();
  return new Map([...again].filter(([lease]) => first.has(lease)));
}

function writtenAt(path: string): Date | undefined {
  return ifPossible(() => Deno.statSync(path).mtime) ?? undefined;
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
): Promise<Reasons> {
  const leases = listLeases([dataDirOf(call.config)]);
  const evidence = await gather(call, { caches: CACHES, leases, graceMs });
  if (evidence === undefined) return new Map();
  return listReasons(await listOwned(call), ({ ip, content }, since) => {
    const container = containerOf(content);
    return evidence.findReason({ container, addresses: [ip], since });
  });
}

function listReasons(
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

/** Lists the leases of containers; others stay for a name. */
async function listOwned(call: AllocatingCall): Promise<Lease[]> {
  using store = await open(call);
  return (store?.leasesOfOthers([]) ?? [])
    .filter(({ content }) => parseSticky(content) === undefined);
}

/** @returns Undefined if some of the node's processes are hidden from this one */
async function gather(
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
