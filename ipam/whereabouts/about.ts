/**
 * What whereabouts tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";
import { lint } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "whereabouts",
  summary: "allocates addresses for the whole cluster, kept in Kubernetes",
  kind: "ipam",
  status: "stable",
  goPeer: "k8snetworkplumbingwg/whereabouts cmd",
  install: { onRequest: true, isCopy: true },
  hasDeepStatus: true,
  lint,
};
