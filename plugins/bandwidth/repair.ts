/**
 * REPAIR: the steps of ADD, which replace what is left of a limit.
 *
 * @module
 */

import type { Call } from "../../cni/plugin.ts";
import { Rollback } from "../../cni/call/rollback.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { attachmentOf } from "../parts/owner/attachment.ts";
import { requirePrevResult } from "../parts/sandbox/prev_result.ts";
import { openSandbox } from "../parts/sandbox/sandbox.ts";
import { directionsOf, limitEgress, limitIngress } from "./directions.ts";
import { getHostEnd } from "./host_end.ts";
import { identifyIfb } from "./ifb.ts";
import { isUnlimited, limitsOf } from "./limits.ts";
import type { BandwidthConfig } from "./schema.ts";

/**
 * Limits both directions again.
 *
 * @throws {Error} If the kernel refuses; what is limited then stays limited
 */
export async function repair(call: Call<BandwidthConfig>): Promise<void> {
  const limits = limitsOf(call.config);
  const prevResult = requirePrevResult(
    call,
    "must be called as a chained plugin",
  );
  if (isUnlimited(limits)) return;
  using host = Rtnl.open(call.hostNetns);
  using sandbox = openSandbox(call.args);
  const end = getHostEnd(host, sandbox, prevResult, call.args.ifName);
  const { ingress, egress } = directionsOf(limits, end);
  const identity = await identifyIfb(attachmentOf(call));
  const pair = { host, end, identity, hasSandbox: true };
  const rollback = new Rollback(call.log);
  if (ingress !== undefined) limitIngress(pair, ingress, rollback);
  if (egress !== undefined) limitEgress(pair, egress, rollback);
}
