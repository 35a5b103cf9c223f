/**
 * Facts about vrf for tools.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";
import { lint } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "vrf",
  kind: "chained",
  status: "stable",
  lint,
};
