/**
 * Facts about firewall for tools.
 *
 * @module
 */

import { type About, valueOf } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "firewall",
  kind: "chained",
  runsIptables: (conf) =>
    ["iptables", undefined, ""].includes(
      valueOf(conf, "backend") as string | undefined,
    ),
  status: "stable",
  network: { letsThrough: true },
  differences: [{
    text: "the nftables table inet cni_firewall stays after the way back",
  }],
};
