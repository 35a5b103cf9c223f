/**
 * VRFs, where the kernel has them.
 *
 * @module
 */

import { NetNs } from "../../ffi/netns.ts";
import {
  canUseNetns,
  ignoreUnless,
  type Needs,
} from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";

/** Skips what needs VRFs; `deno task test:kernel` has a kernel with them. */
export const needsVrf: Needs = ignoreUnless(
  canUseNetns && hasVrf(),
  "needs a kernel with VRFs",
);

function hasVrf(): boolean {
  using netns = NetNs.create();
  try {
    runIn(netns, "ip", ..."link add probe type vrf table 1".split(" "));
    return true;
  } catch {
    return false;
  }
}
