/**
 * What portmap tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";
import { lint } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "portmap",
  summary: "forwards ports of the host to the container",
  kind: "chained",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/meta/portmap",
  start: { keys: () => ({ capabilities: { portMappings: true } }) },
  lint,
};
