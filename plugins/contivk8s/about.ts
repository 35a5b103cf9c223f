/**
 * Facts about contivk8s for tools.
 *
 * @module
 */

import type { About } from "../../cni/tools/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "contivk8s",
  kind: "meta",
  status: "experimental",
  page: "remote",
  install: { onRequest: true },
  passesOn: true,
  hasDeepStatus: true,
};
