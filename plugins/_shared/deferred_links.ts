/**
 * Deleting the links of a list's plugins together.
 *
 * @module
 */

import type { Call } from "../../cni/plugin.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { LinkEnd } from "./veth.ts";

/**
 * Deletes a link of the host, or leaves that to a plugin that is run after this
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
 * Deletes a link of the host, together with all that was left to be deleted.
 *
 * @returns Whether the link was there
 * @throws {NetlinkError} If the kernel refuses
 */
export function deleteWithDeferred(
  host: Rtnl,
  name: string,
  { deferredLinks }: Call,
): boolean {
  const deferred = deferredLinks?.takeAll() ?? [];
  if (deferred.length === 0) return host.link.ensureGone(name);
  const found = host.link.find(name);
  const links = found === undefined ? deferred : [found, ...deferred];
  host.link.ensureAllGone(links.map(({ index }) => index));
  return found !== undefined;
}
