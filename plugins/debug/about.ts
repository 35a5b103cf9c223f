/**
 * What debug tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "debug",
  summary: "records the input of plugins and runs hooks in the sandbox",
  kind: "meta",
  status: "stable",
  goPeer: "containernetworking/cni plugins/debug",
  install: { onRequest: true },
  ipam: "possible",
  runs: {},
  hasDeepStatus: true,
};
