/**
 * Deletes links, together with links of other plugins and calls.
 *
 * @module
 */

import type {
  DeletableLink,
  LinkLocation,
  LinkToDelete,
  Preparation,
} from "../../../cni/call/link_deletion.ts";
import { throwAll } from "../../../base/rollback.ts";
import type { Call } from "../../../cni/plugin.ts";
import { isSystemError } from "../../../ffi/errno.ts";
import { isMissingNetns } from "../../../ffi/netns.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { LinkEnd } from "./veth.ts";

/**
 * Deletes links of the host, and waits until they are deleted.
 *
 * @throws {Error} If the kernel refuses; names the link. An AggregateError of several
 * failures
 */
export async function deleteNow(
  links: readonly LinkEnd[],
  call: Pick<Call, "linkDeletion" | "hostNetns">,
): Promise<void> {
  await call.linkDeletion.now(placed(links, call));
}

/**
 * Deletes links of the host, or leaves the deletion to a plugin that runs after this
 * plugin in the same process.
 *
 * @param preparation The preparation of the first link
 * @throws {Error} See {@linkcode deleteNow}
 */
export async function deleteLater(
  links: readonly LinkEnd[],
  call: Pick<Call, "linkDeletion" | "hostNetns">,
  preparation?: Preparation,
): Promise<void> {
  const [first, ...others] = placed(links, call);
  if (first === undefined) return;
  const deferred = [{ ...first, preparation }, ...others];
  await call.linkDeletion.later(deferred);
}

function placed(
  links: readonly LinkEnd[],
  { hostNetns }: Pick<Call, "hostNetns">,
): DeletableLink[] {
  return links.map(({ index, name }) => ({
    index,
    name,
    netns: hostNetns,
    deleteTogether: deleteLinks,
  }));
}

/**
 * Prepares links for deletion at the same time.
 *
 * @returns The failures
 */
export function prepareLinks(links: readonly LinkToDelete[]): unknown[] {
  const isDeleted = ({ index, netns }: LinkLocation): boolean =>
    links.some((link) => link.index === index && link.netns === netns);
  return links.flatMap(({ preparation }) => {
    if (preparation === undefined) return [];
    if (preparation.unlessDeleted.some(isDeleted)) return [];
    try {
      preparation.run();
      return [];
    } catch (error) {
      return [error];
    }
  });
}

/**
 * Deletes the links of each namespace as a group. If the kernel refuses, deletes each
 * link separately. Links that were already deleted are not an error.
 *
 * @throws {Error} If the kernel refuses; names the link. An AggregateError of several
 * failures
 */
export function deleteLinks(links: readonly LinkToDelete[]): void {
  const failures = prepareLinks(links);
  const deletions = [...Map.groupBy(links, ({ netns }) => netns)]
    .flatMap(([path, there]) => {
      using netns = openUnlessGone(path);
      if (netns === undefined) return [];
      try {
        netns.link.ensureAllGone(there.map(({ index }) => index));
        return [];
      } catch (error) {
        if (!isSystemError(error)) throw error;
        return deleteEach(netns, there);
      }
    });
  failures.push(...deletions);
  throwAll(failures, `${failures.length} links cannot be deleted`);
}

/** Opens a namespace, unless it was deleted in between with its links. */
function openUnlessGone(path: string): Rtnl | undefined {
  try {
    return Rtnl.open(path);
  } catch (error) {
    if (isMissingNetns(error)) return undefined;
    throw error;
  }
}

/** @returns The failures */
function deleteEach(netns: Rtnl, links: readonly LinkToDelete[]): unknown[] {
  return links.flatMap(({ index, name }) => {
    try {
      netns.link.ensureGone(index);
      return [];
    } catch (cause) {
      const failure = new Error(`Cannot delete "${name}"`, { cause });
      try {
        netns.link.leaveGroup(index);
        return [failure];
      } catch (error) {
        return [failure, error];
      }
    }
  });
}
