/**
 * Leases of a container that is started again after its DEL was lost.
 *
 * The container still exists in its runtime, and the address of a userspace driver or a
 * virtual machine is visible in no namespace. So the runtime's cache must name the
 * container's earlier namespace, and that namespace must no longer exist.
 *
 * @module
 */

import { ifPossible } from "../../../base/files/io.ts";
import { fileIdOf, findFileId } from "../../../base/files/same_file.ts";
import { leadsToSandbox } from "../../../cni/call/netns_existence.ts";
import { isSameInterface } from "../../../cni/config/types.ts";
import type { Call } from "../../../cni/plugin.ts";
import type { DatedLease } from "../lease.ts";
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

/** A call that attaches a container again. */
type RestartingCall = AllocatingCall & Pick<Call, "args">;

/**
 * Finds the leases of a container from before it was started again: its runtime could
 * not run DEL, because the machine or the runtime was restarted. Does not lock the
 * leases during the search.
 *
 * @throws {CniError} 5 if a file cannot be read, 11 if other processes hold the lock
 */
export async function findOwnDeadLeases(
  call: RestartingCall,
): Promise<DatedLease[]> {
  const leases = await listOwn(call);
  const reasons = await lookTwice(call, () => findOwnDead(call, leases));
  const dead = leases.filter((lease) => reasons.has(identify(lease)));
  for (const lease of dead) {
    call.log.warn("The container was started again without DEL", {
      address: String(lease.ip),
      why: reasons.get(identify(lease)),
    });
  }
  return dead;
}

async function listOwn(call: RestartingCall): Promise<DatedLease[]> {
  using store = await findStore(call);
  return store?.datedLeasesOf(call.args) ?? [];
}

async function findOwnDead(
  call: RestartingCall,
  leases: readonly DatedLease[],
): Promise<Reasons> {
  const unknown: Reasons = new Map();
  const { args, hostNetns } = call;
  const { eachCached, netnsOf } = await import(
    "../../../plugins/parts/evidence/evidence.ts"
  );
  // Without a cache that this user may read, nothing is known.
  const paths = ifPossible(() =>
    eachCached(CACHES, args.containerId)
      .filter((attachment) => isSameInterface(attachment, args))
      .map(netnsOf)
      .toArray()
  ) ?? [];
  if (paths.length === 0 || paths.includes("")) return unknown;
  const kept = paths.filter((path) => !isReplaced(path, args.netns, leases));
  // Most are refused here, before all processes are looked at.
  if (kept.some((path) => leadsToSandbox(path, hostNetns) !== false)) {
    return unknown;
  }
  const evidence = await gatherEvidence(call, {
    caches: [],
    leases: [],
    graceMs: GRACE_MS,
  });
  if (!evidence || kept.some((path) => evidence.isAlive(path))) return unknown;
  // Without its ID: the runtime has the container that it starts.
  return listReasons(
    leases,
    ({ ip }, since) => evidence.findReason({ addresses: [ip], since }),
  );
}

/**
 * Reports whether a path is where the call's namespace was mounted after the leases
 * had been written. While a namespace is mounted, its file keeps the time at which it
 * was first opened. A link such as `/proc/PID/ns/net` shows the time of any open file.
 */
function isReplaced(
  path: string,
  netns: string,
  leases: readonly DatedLease[],
): boolean {
  const file = ifPossible(() => Deno.lstatSync(path));
  if (file === undefined || fileIdOf(file) !== findFileId(netns)) return false;
  const madeMs = file.mtime?.getTime() ?? 0;
  return leases.every(({ writtenMs }) => madeMs > writtenMs);
}
