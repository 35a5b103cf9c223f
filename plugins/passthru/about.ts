/**
 * What passthru tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "passthru",
  summary: "does nothing; starts a chain of plugins that expect a prevResult",
  kind: "meta",
  status: "stable",
  goPeer: "k8snetworkplumbingwg/multus-cni cmd/passthru-cni",
  page: "multus-networks#passthru",
  install: { onRequest: true },
};
