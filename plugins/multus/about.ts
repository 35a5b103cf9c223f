/**
 * Facts about multus for tools.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";
import { lint } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "multus",
  kind: "meta",
  status: "stable",
  install: { onRequest: true },
  ipam: "possible",
  makesInterface: true,
  runs: { key: "delegates", areNetworks: true },
  hasDeepStatus: true,
  lint,
};
