/**
 * Kinds of links that several plugins need from the kernel, and how to test them.
 *
 * @module
 */

import type { KernelNeed } from "../../../metadata/plugin_metadata.ts";
import { NetNs } from "../../../ffi/netns.ts";
import type { KindData } from "../../../ffi/rtnl/link_kinds.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";

/** veth pairs. */
export const VETH: KernelNeed = {
  name: "veth",
  module: "veth",
  probe: (netns) => {
    using ns = NetNs.open(netns);
    using rtnl = Rtnl.open(netns);
    rtnl.link.addVeth({
      name: "p-pair0",
      peer: { netns: ns, name: "p-pair1" },
    });
  },
};

/** A kind of link that the kernel might not support. */
export function linkNeed(
  name: string,
  module: string,
  info: KindData,
): KernelNeed {
  return {
    name,
    module,
    probe: (path, lower) => {
      using netns = NetNs.open(path);
      using rtnl = Rtnl.open(path);
      rtnl.link.addElsewhere({
        netns,
        name: `p-${name}`.slice(0, 15),
        info,
        lowerIndex: rtnl.link.find(lower)?.index,
      });
    },
  };
}
