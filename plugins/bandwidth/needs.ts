/**
 * The features of the kernel that bandwidth needs.
 *
 * @module
 */

import type { KernelNeeds } from "../../cni/tools/about.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Parent, TrafficControl } from "../../ffi/rtnl/traffic_control.ts";
import { linkNeed } from "../parts/kernel_needs.ts";

/** See {@linkcode KernelNeeds}. */
export const needs: KernelNeeds = {
  type: "bandwidth",
  features: [
    linkNeed("ifb", "ifb", { kind: "ifb" }),
    {
      name: "tbf",
      module: "sch_tbf",
      probe: (netns, lower) => {
        using rtnl = Rtnl.open(netns);
        new TrafficControl(rtnl.socket).qdisc.add({
          ifindex: rtnl.link.find(lower)?.index ?? 1,
          parent: Parent.Root,
          kind: "tbf",
          bucket: { bytesPerSecond: 1e6, bufferTicks: 1e6, limitBytes: 1e5 },
        });
      },
    },
  ],
};
