/**
 * Routing of 127.0.0.0/8 to a container. Without it the kernel drops packets
 * from 127.0.0.1 that leave by a link other than `lo`, although their source is
 * masqueraded in the end.
 *
 * @module
 */

import { inNetns, NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { readSysctl, writeSysctl } from "../../ffi/sysctl.ts";

/** Returns the key of a link's setting. Source: Documentation/networking/ip-sysctl.rst. */
export function localnetKeyOf(link: string): string {
  return `net/ipv4/conf/${link}/route_localnet`;
}

/** Reports whether packets from and to 127.0.0.0/8 may pass a link. */
export function hasLocalnet(hostNetns: string, link: string): boolean {
  using host = NetNs.open(hostNetns);
  return inNetns(host, () => readSysctl(localnetKeyOf(link)) === "1");
}

/**
 * Lets packets from and to 127.0.0.0/8 pass a link, or no longer.
 *
 * @returns Whether that changes anything
 */
export function setLocalnet(
  hostNetns: string,
  link: string,
  isOn: boolean,
): boolean {
  using host = NetNs.open(hostNetns);
  return inNetns(host, () => {
    const key = localnetKeyOf(link), value = isOn ? "1" : "0";
    try {
      if (readSysctl(key) === value) return false;
      writeSysctl(key, value);
      return true;
    } catch (error) {
      // The link might be deleted when the setting is restored.
      if (isOn || !(error instanceof Deno.errors.NotFound)) throw error;
      return false;
    }
  });
}

/**
 * Reports whether a link ends with one container: it is gone, or a veth pair to
 * it, and not a bridge to several.
 */
export function isOfOneContainer(hostNetns: string, link: string): boolean {
  using host = Rtnl.open(hostNetns);
  const found = host.link.find(link);
  return found === undefined || found.kind === "veth";
}
