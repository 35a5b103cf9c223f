/**
 * Leases of a container whose DEL was lost, and which is started again.
 *
 * Its runtime knows the container, so the namespaces decide whether it is dead.
 *
 * @module
 */

import { findFileId } from "../../../base/files/same_file.ts";
import type { Call } from "../../../cni/plugin.ts";
import type { Lease } from "../lease.ts";
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
  writtenAt,
} from "./evidence.ts";

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
  using store = await findStore(call);
  return store?.leasesOf(call.args) ?? [];
}

async function findOwnDead(
  call: AllocatingCall & Pick<Call, "args">,
  leases: readonly Lease[],
  graceMs: number,
): Promise<Reasons> {
  const evidence = await gatherEvidence(call, {
    caches: [],
    leases: [],
    graceMs,
  });
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
