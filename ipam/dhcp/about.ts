/**
 * Facts about dhcp for tools.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "dhcp",
  kind: "ipam",
  status: "stable",
  differences: [{
    text: "Go's daemon does not answer it: change the daemon too",
  }],
};
