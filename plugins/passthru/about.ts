/**
 * Facts about passthru for tools.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "passthru",
  kind: "meta",
  status: "stable",
  page: "multus-networks#passthru",
  install: { onRequest: true },
};
