/**
 * What host-device tells of itself.
 *
 * @module
 */

import type { About } from "../../cni/about.ts";
import { lint } from "./lint.ts";

/** See {@linkcode About}. */
export const about: About = {
  type: "host-device",
  summary: "moves a device of the host into the container",
  kind: "interface",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/main/host-device",
  ipam: "possible",
  makesInterface: true,
  network: { joins: "lower link" },
  lint,
};
