/**
 * Restores leases of running containers after a program deleted the directory, because
 * their addresses would otherwise be allocated again.
 *
 * ADD does this once, before the first address is allocated from a directory.
 *
 * @module
 */

import { dirname, join } from "@std/path/posix";
import { describeError } from "../../../base/error.ts";
import { ifPossible } from "../../../base/files/io.ts";
import type { Log } from "../../../base/log/log.ts";
import { leadsToSandbox } from "../../../cni/call/netns_existence.ts";
import type { Call } from "../../../cni/plugin.ts";
import type { LivingAttachment } from "../../../metadata/orphans.ts";
import type { Ip } from "../../../net/ip.ts";
import { findRange, type RangeSet } from "../range.ts";
import type { LeaseStore } from "../store.ts";
import { CACHES } from "./evidence.ts";

/**
 * Prepares to lease the addresses of running containers, if the ranges contain them: at
 * most one address of each set for an attachment, as ADD does.
 *
 * @returns The function that leases the addresses, and throws a {@linkcode CniError} 5
 *   if a lease cannot be written. It finds the containers while the store is locked:
 *   DEL deletes the link before it releases the lease, so no lease of a deleted
 *   attachment is restored. It lets the event loop run, because a node can have
 *   thousands of containers
 */
export async function prepareRestoration(
  call: RestoringCall,
  sets: readonly RangeSet[],
): Promise<(store: LeaseStore) => Promise<void>> {
  const { listLiving } = await import(
    "../../../plugins/parts/evidence/attached.ts"
  );
  const { network, hostNetns, log } = call;
  const list: List = (namespaces) =>
    listLiving(network, { hostNetns, namespaces, caches: CACHES });
  return async (store) => {
    const living = await findLivingAttachments(call, list);
    restoreLeases(living, sets, store, log);
  };
}

function restoreLeases(
  living: readonly LivingAttachment[],
  sets: readonly RangeSet[],
  store: LeaseStore,
  log: Log,
): void {
  for (const { ips, ...owner } of living) {
    const leases = store.leasesOf(owner);
    for (const set of sets) {
      const isIn = (ip: Ip): boolean => findRange(set, ip) !== undefined;
      const ip = ips.find(isIn);
      if (ip === undefined || leases.some((lease) => isIn(lease.ip))) continue;
      if (!store.reserve(ip, owner)) continue;
      log.warn("Restored the lease of a living container", {
        address: String(ip),
        of: owner.containerId,
      });
    }
  }
}

/** A call that hands out the first address of a directory. */
type RestoringCall = Pick<Call, "args" | "network" | "hostNetns" | "log">;

/** Lists attachments by the host's links and those in namespaces. */
type List = (namespaces: readonly string[]) => Promise<LivingAttachment[]>;

/**
 * Finds the network's other attachments in the namespaces next to the new
 * container's. Never throws.
 */
async function findLivingAttachments(
  { args, hostNetns, log }: RestoringCall,
  list: List,
): Promise<LivingAttachment[]> {
  const namespaces = listNamespaces(args.netns, hostNetns);
  if (namespaces.length === 0) return [];
  try {
    return (await list(namespaces)).filter(({ containerId, ifName }) =>
      containerId !== args.containerId || ifName !== args.ifName
    );
  } catch (error) {
    log.warn("Cannot find containers that are attached to the network", {
      error: describeError(error),
    });
    return [];
  }
}

/** Runtimes keep the namespaces of all containers in the same directory. */
function listNamespaces(netns: string, hostNetns: string): string[] {
  if (netns === "" || netns.startsWith("/proc/")) return [];
  const directory = dirname(netns);
  const entries = ifPossible(() => [...Deno.readDirSync(directory)]) ?? [];
  return entries.map(({ name }) => join(directory, name))
    .filter((path) => leadsToSandbox(path, hostNetns));
}
