/**
 * The host's access to containers, as steps of plugins' commands. A step does
 * nothing, and loads no further code, unless the configuration sets
 * `hostAccess`. DEL and GC also end an access that the configuration no longer
 * mentions.
 *
 * @module
 */

import type { Differences } from "../../../cni/call/differences.ts";
import type { Rollback } from "../../../base/rollback.ts";
import type { Interface, Result } from "../../../cni/result/result.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { LinkData } from "../../../ffi/rtnl/link_types.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { readablePrevResult } from "../sandbox/prev_result.ts";
import type { HostAccessCall } from "./host_access.ts";
import { isAccessLinkName } from "./access_link_name.ts";

/**
 * Lets the host reach a container. The rollback undoes it.
 *
 * @param link The container's interface
 * @returns The host's link, for the result
 * @throws {CniError} 7 if the host has no address for a family of the container,
 *   or an address of the container or of `hostAddresses` already
 * @throws {Error} If the kernel refuses
 */
export async function giveHostAccess(
  call: HostAccessCall,
  link: Link,
  { ips }: Pick<Result, "ips">,
  rollback: Rollback,
): Promise<Interface[]> {
  // Without addresses, there is nothing to reach.
  if (!call.config.hostAccess || ips.length === 0) return [];
  const { giveAccess } = await import("./host_access.ts");
  return [await giveAccess(call, link, ips, rollback)];
}

/**
 * Checks that the host can reach a container.
 *
 * @param differences Collects deviations from what ADD leaves
 */
export async function checkHostAccess(
  call: HostAccessCall,
  link: Link,
  differences: Differences,
): Promise<void> {
  if (!call.config.hostAccess) return;
  const { checkAccess } = await import("./host_access.ts");
  await checkAccess(call, link, differences);
}

/**
 * Lets the host reach a container again.
 *
 * @param data The kind and mode of the container's interface after ADD
 * @throws {Error} If the kernel refuses
 */
export async function repairHostAccess(
  call: HostAccessCall,
  data: LinkData,
): Promise<void> {
  if (!call.config.hostAccess) return;
  const { repairAccess } = await import("./host_access.ts");
  await repairAccess(call, data);
}

/** The kind of the host's links, which is that of the containers' interfaces. */
type AccessLinkKind = "macvlan" | "ipvlan";

/**
 * Ends the host's access to a container.
 *
 * @throws {Error} If the kernel refuses
 */
export async function endHostAccess(
  call: HostAccessCall,
  kind: AccessLinkKind,
): Promise<void> {
  const result = readablePrevResult(call);
  const hasAccess = call.config.hostAccess ||
    (result === undefined
      ? hasAccessLinks(call, kind)
      : listsAccessLink(result));
  if (!hasAccess) return;
  const { endAccess } = await import("./host_access.ts");
  await endAccess(call);
}

/**
 * Ends the host's access to containers that are no longer attached.
 *
 * @throws {Error} If the kernel refuses
 */
export async function endStaleHostAccess(
  call: HostAccessCall,
  kind: AccessLinkKind,
): Promise<void> {
  if (!call.config.hostAccess && !hasAccessLinks(call, kind)) return;
  const { endStaleAccess } = await import("./host_access.ts");
  await endStaleAccess(call);
}

/** Reports whether ADD gave the host a link to the container. */
function listsAccessLink({ interfaces }: Result): boolean {
  return interfaces.some(({ name, sandbox }) =>
    !sandbox && isAccessLinkName(name)
  );
}

/**
 * Reports whether the host has such links, of any network. Not from a list of all
 * links, which has one for each container of ptp and bridge.
 */
function hasAccessLinks(
  { hostNetns }: HostAccessCall,
  kind: AccessLinkKind,
): boolean {
  using host = Rtnl.open(hostNetns);
  return host.link.list({ kind }).some(({ name }) => isAccessLinkName(name));
}
