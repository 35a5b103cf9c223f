/**
 * Facts about flannel for tools.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "flannel",
  kind: "meta",
  status: "stable",
  install: { onRequest: true, isCopy: true },
  ipam: "possible",
  makesInterface: true,
  runs: { key: "delegate", type: "bridge", ipamType: "host-local" },
  hasDeepStatus: true,
};
