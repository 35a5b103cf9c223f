/**
 * Facts about whereabouts for tools.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";
import { lint, listSubnets } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "whereabouts",
  kind: "ipam",
  status: "stable",
  install: { onRequest: true, isCopy: true },
  hasDeepStatus: true,
  lint,
  subnets: listSubnets,
};
