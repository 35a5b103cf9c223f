/**
 * What vrf tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";
import { lint } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "vrf",
  summary: "puts the interface into a VRF",
  kind: "chained",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/meta/vrf",
  lint,
};
