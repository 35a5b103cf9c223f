/**
 * Facts about static for tools.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";
import { lint, listSubnets } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "static",
  kind: "ipam",
  status: "stable",
  lint,
  subnets: listSubnets,
};
