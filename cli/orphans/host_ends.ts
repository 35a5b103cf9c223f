/**
 * The host's ends of veths, which show that containers are alive.
 *
 * @module
 */

import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { findLinkOwner } from "../../plugins/parts/owner/attachment.ts";

/** The host's ends of veths that lead into other namespaces, which are alive. */
export interface HostEnds {
  readonly names: ReadonlySet<string>;
  /** The containers that their aliases name. */
  readonly containers: ReadonlySet<string>;
}

/**
 * Finds the host's ends of veths. Unlike processes and mounts, they also show
 * namespaces that are hidden from this process.
 */
export function findHostEnds(hostNetns: string): HostEnds {
  using host = Rtnl.open(hostNetns);
  const ends = host.link.list().filter(({ kind, linkNetnsId }) =>
    kind === "veth" && linkNetnsId !== undefined
  );
  return {
    names: new Set(ends.map(({ name }) => name)),
    containers: new Set(
      ends.flatMap((end) => findLinkOwner(end)?.containerId ?? []),
    ),
  };
}
