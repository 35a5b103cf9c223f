/**
 * Deletes the links of a list's plugins together.
 *
 * @module
 */

import type { Call } from "../../cni/plugin.ts";
import { throwAll } from "../../cni/rollback.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { LinkEnd } from "./veth.ts";

/**
 * Deletes a link of the host, or defers that to a plugin that runs after this
 * one in the same process.
 *
 * @throws {NetlinkError} If the kernel refuses
 */
export function deleteOrDefer(
  host: Rtnl,
  { index, name }: LinkEnd,
  { deferredLinks, hostNetns }: Call,
): void {
  if (deferredLinks === undefined) return void host.link.ensureGone(index);
  const remove = (): void => {
    using later = Rtnl.open(hostNetns);
    later.link.ensureGone(index);
  };
  deferredLinks.defer({ index, name, remove });
}

/**
 * Deletes a link of the host together with all deferred ones. If the kernel
 * refuses, deletes each link by itself.
 *
 * @param link Undefined to delete only the deferred links
 * @throws {NetlinkError} If the kernel refuses; an AggregateError of several
 */
export function deleteWithDeferred(
  host: Rtnl,
  link: LinkEnd | undefined,
  { deferredLinks }: Call,
): void {
  const deferred = deferredLinks?.takeAll() ?? [];
  const links = link === undefined ? deferred : [link, ...deferred];
  const indexes = links.map(({ index }) => index);
  try {
    host.link.ensureAllGone(indexes);
  } catch {
    deleteEach(host, indexes);
  }
}

function deleteEach(host: Rtnl, indexes: readonly number[]): void {
  const failures: unknown[] = [];
  for (const index of indexes) {
    try {
      host.link.ensureGone(index);
    } catch (error) {
      failures.push(error);
    }
  }
  throwAll(failures, `${failures.length} links cannot be deleted`);
}
