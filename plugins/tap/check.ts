/**
 * CHECK of the settings of a tap device.
 *
 * @module
 */

import type { Differences } from "../../cni/call/differences.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { linkFailure } from "../parts/link/check_link.ts";
import type { TapConfig } from "./schema.ts";

/**
 * Checks the MTU and the bridge.
 *
 * @param differences Collects deviations from ADD's result
 */
export async function checkSettings(
  differences: Differences,
  sandbox: Rtnl,
  link: Link,
  { mtu, bridge }: TapConfig,
): Promise<void> {
  await differences.collect(() => {
    // The Go plugin, which sets no alias, ignores the MTU if both an owner and a
    // group are set.
    if (!mtu || !link.alias || link.mtu === mtu) return;
    const problem = `has MTU ${link.mtu}, not ${mtu}`;
    throw linkFailure(sandbox, link, problem, { mtu });
  });
  await differences.collect(() => {
    if (!bridge) return;
    const master = sandbox.link.find(bridge)?.index;
    if (master !== undefined && link.masterIndex === master) return;
    const problem = `is not a port of bridge "${bridge}"`;
    throw linkFailure(sandbox, link, problem, { master: bridge });
  });
}
