/**
 * What host-local tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";
import { lint, listRanges } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "host-local",
  summary: "allocates addresses from ranges, with leases in files",
  kind: "ipam",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/ipam/host-local",
  lint,
  ranges: listRanges,
};
