/**
 * Routing of 127.0.0.0/8 to a container. Without it the kernel drops packets
 * from 127.0.0.1 that leave by a link other than `lo`, although their source is
 * masqueraded in the end.
 *
 * @module
 */

import { inNetns, NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { ensureSysctl, readSysctl } from "../../ffi/sysctl.ts";
import type { Ip } from "../../net/ip.ts";

/** Returns the key of a link's setting. Source: Documentation/networking/ip-sysctl.rst. */
const keyOf = (link: string): string => `net/ipv4/conf/${link}/route_localnet`;

/**
 * Returns the name of the host's link that leads to a container, such as its
 * veth or its bridge; undefined if no route does.
 */
export function findLinkTo(
  hostNetns: string,
  container: Ip,
): string | undefined {
  using host = Rtnl.open(hostNetns);
  const index = host.route.findOutput(container);
  return index === undefined ? undefined : host.link.find(index)?.name;
}

/** Reports whether packets from and to 127.0.0.0/8 may pass a link. */
export function hasLocalnet(hostNetns: string, link: string): boolean {
  using host = NetNs.open(hostNetns);
  return inNetns(host, () => readSysctl(keyOf(link)) === "1");
}

/** Lets packets from and to 127.0.0.0/8 pass a link, or no longer. */
export function setLocalnet(
  hostNetns: string,
  link: string,
  isOn: boolean,
): void {
  using host = NetNs.open(hostNetns);
  inNetns(host, () => ensureSysctl(keyOf(link), isOn ? "1" : "0"));
}
