/**
 * What bandwidth tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Parent, TrafficControl } from "../../ffi/rtnl/traffic_control.ts";
import { linkNeed } from "../parts/kernel_needs.ts";
import { lint } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "bandwidth",
  summary: "limits a container's traffic in both directions",
  kind: "chained",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/meta/bandwidth",
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
};
