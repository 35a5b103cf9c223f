/**
 * What sbr tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";
import { lint } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "sbr",
  summary: "replies leave through the interface the request came in on",
  kind: "chained",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/meta/sbr",
  network: { hasRules: true },
  lint,
};
