/**
 * What static tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";
import { lint } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "static",
  summary: "assigns fixed addresses",
  kind: "ipam",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/ipam/static",
  lint,
};
