/**
 * Facts about debug for tools.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";
import { refusalOf } from "./asked_for.ts";
import { lint } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "debug",
  kind: "meta",
  status: "stable",
  install: { onRequest: true },
  ipam: "possible",
  runs: {},
  hasDeepStatus: true,
  refusal: refusalOf,
  lint,
};
