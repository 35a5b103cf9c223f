/**
 * Facts about sbr for tools.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";
import { lint } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "sbr",
  kind: "chained",
  status: "stable",
  network: { hasRules: true },
  differences: [{ text: "link-local IPv6 stays in table main" }],
  lint,
};
