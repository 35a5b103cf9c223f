/**
 * What loopback tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "loopback",
  summary: "brings up the container's `lo`",
  kind: "interface",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/main/loopback",
};
