/**
 * Deletes links of the host, together with other plugins' and other calls'.
 *
 * @module
 */

import type { Call } from "../../cni/plugin.ts";
import { throwAll } from "../../cni/rollback.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { LinkEnd } from "./veth.ts";

/** A link of the host that is to be deleted. */
export interface HostLink extends LinkEnd {
  /** Path of the host's namespace. */
  readonly hostNetns: string;
}

/**
 * Deletes links of the host, and waits until they are gone.
 *
 * @throws {Error} If the kernel refuses; names the link. An AggregateError of
 *   several
 */
export async function deleteNow(
  links: readonly LinkEnd[],
  call: Pick<Call, "together" | "hostNetns">,
): Promise<void> {
  await call.together.now(deleteLinks, placed(links, call));
}

/**
 * Deletes links of the host, or leaves that to a plugin that runs after this
 * one in the same process.
 *
 * @throws {Error} As {@linkcode deleteNow}
 */
export async function deleteLater(
  links: readonly LinkEnd[],
  call: Pick<Call, "together" | "hostNetns">,
): Promise<void> {
  await call.together.later(deleteLinks, placed(links, call));
}

function placed(
  links: readonly LinkEnd[],
  { hostNetns }: Pick<Call, "hostNetns">,
): HostLink[] {
  return links.map(({ index, name }) => ({ index, name, hostNetns }));
}

/**
 * Deletes links of one host as a group. If the kernel refuses, deletes each
 * link by itself. Links that are already gone are fine.
 *
 * @throws {Error} If the kernel refuses; names the link. An AggregateError of
 *   several
 */
export function deleteLinks(links: readonly HostLink[]): void {
  const [first] = links;
  if (first === undefined) return;
  using host = Rtnl.open(first.hostNetns);
  try {
    host.link.ensureAllGone(links.map(({ index }) => index));
  } catch {
    deleteEach(host, links);
  }
}

function deleteEach(host: Rtnl, links: readonly HostLink[]): void {
  const failures: unknown[] = [];
  for (const { index, name } of links) {
    try {
      host.link.ensureGone(index);
    } catch (cause) {
      failures.push(new Error(`Cannot delete "${name}"`, { cause }));
    }
  }
  throwAll(failures, `${failures.length} links cannot be deleted`);
}
