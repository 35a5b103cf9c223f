/**
 * CHECK of the settings of a tap device.
 *
 * @module
 */

import type { Differences } from "../../cni/call/differences.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { linkDifference } from "../parts/link/check_link.ts";
import type { TapConfig } from "./schema.ts";

/**
 * Checks the MTU and the bridge.
 *
 * @param differences Collects deviations from ADD's result
 */
export function checkSettings(
  differences: Differences,
  sandbox: Rtnl,
  link: Link,
  { mtu, bridge }: TapConfig,
): void {
  // The Go plugin, which sets no alias, ignores the MTU if both an owner and a
  // group are set.
  if (mtu && link.alias && link.mtu !== mtu) {
    const problem = `has MTU ${link.mtu}, not ${mtu}`;
    differences.add(linkDifference(sandbox, link, problem, { mtu }));
  }
  if (!bridge) return;
  const master = sandbox.link.find(bridge)?.index;
  if (master !== undefined && link.masterIndex === master) return;
  const problem = `is not a port of bridge "${bridge}"`;
  differences.add(linkDifference(sandbox, link, problem, { master: bridge }));
}
