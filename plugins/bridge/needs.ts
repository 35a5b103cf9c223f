/**
 * The features of the kernel that bridge needs.
 *
 * @module
 */

import { type KernelNeeds, valueOf } from "../../cni/tools/about.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { linkNeed, VETH } from "../parts/kernel_needs.ts";

/** See {@linkcode KernelNeeds}. */
export const needs: KernelNeeds = {
  type: "bridge",
  features: [
    VETH,
    linkNeed("bridge", "bridge", { kind: "bridge" }),
    {
      name: "VLAN filtering",
      module: "bridge (CONFIG_BRIDGE_VLAN_FILTERING)",
      isNeeded: (conf) =>
        ["vlan", "vlanTrunk"].some((key) => Boolean(valueOf(conf, key))),
      probe: (netns) => {
        using rtnl = Rtnl.open(netns);
        rtnl.link.addBridge({ name: "p-filtering", vlanFiltering: true });
      },
    },
  ],
};
