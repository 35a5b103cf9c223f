/**
 * What host-device tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";
import { lint } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "host-device",
  kind: "interface",
  ipam: "possible",
  makesInterface: true,
  network: { joins: "lower link" },
  lint,
};
