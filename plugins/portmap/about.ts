/**
 * Facts about portmap for tools.
 *
 * @module
 */

import { type About, valueOf } from "../../cni/tools/about.ts";
import { lint } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "portmap",
  kind: "chained",
  runsIptables: (conf) =>
    ["iptables", undefined, ""].includes(
      valueOf(conf, "backend") as string | undefined,
    ),
  status: "stable",
  differences: [{
    uses: /"backend":"nftables"/i,
    text: "Go's plugin leaves the rules after the way back",
  }],
  start: { keys: () => ({ capabilities: { portMappings: true } }) },
  lint,
};
