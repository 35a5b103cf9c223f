/**
 * The kernel's connection tracking, which several plugins need, and how to test it.
 *
 * @module
 */

import type { KernelNeed } from "../../../metadata/plugin_metadata.ts";
import { Conntrack } from "../../../ffi/conntrack/mod.ts";

/** Connections that the kernel tracks, which address translation needs. */
export const CONNTRACK: KernelNeed = {
  name: "conntrack",
  module: "nf_conntrack",
  probe: (netns) => {
    using conntrack = Conntrack.open(netns);
    conntrack.list({});
  },
};
