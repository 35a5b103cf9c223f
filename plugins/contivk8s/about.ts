/**
 * What contivk8s tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "contivk8s",
  summary: "is remote, with the name and defaults of contiv's plugin",
  kind: "meta",
  status: "experimental",
  page: "remote",
  install: { onRequest: true },
  passesOn: true,
  hasDeepStatus: true,
};
