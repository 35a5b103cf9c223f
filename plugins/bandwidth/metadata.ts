/**
 * Metadata of bandwidth for tools. Its calls never load this file.
 *
 * @module
 */

import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";
import { lint } from "./lint.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Parent, TrafficControl } from "../../ffi/rtnl/traffic_control.ts";
import { linkNeed } from "../parts/link/link_needs.ts";

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "bandwidth",
  kind: "chained",
  queues: "needed",
  status: "stable",
  differences: [{
    uses: /"(un)?shapedSubnets"/i,
    text: "subnets are matched in the direction of the traffic",
  }],
  start: { keys: () => ({ capabilities: { bandwidth: true } }) },
  lint,
  needs: [
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
  keys: async () => (await import("./keys.ts")).keys,
  orphans: async () => (await import("./orphans.ts")).orphans,
};
