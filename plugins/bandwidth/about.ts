/**
 * What bandwidth tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";
import { lint } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "bandwidth",
  summary: "limits a container's traffic in both directions",
  kind: "chained",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/meta/bandwidth",
  start: { keys: () => ({ capabilities: { bandwidth: true } }) },
  lint,
};
