/**
 * Kernel parameters of the container's network namespace.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { ifPossible, withIoFailure } from "../../base/files/io.ts";
import type { Rollback } from "../../base/rollback.ts";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { isReadableSysctl, readSysctl, writeSysctl } from "../../ffi/sysctl.ts";

/** A parameter to set. */
export interface Sysctl {
  /** The name in the configuration, to which the allowlist applies. */
  readonly name: string;
  /** The path below /proc/sys, with slashes. */
  readonly key: string;
  readonly value: string;
}

/**
 * Finds the parameter with a name such as `net.ipv4.conf.IFNAME.arp_filter`. Dots and
 * slashes separate the parts, except dots in the interface's name.
 *
 * @throws {CniError} 7 if the name leads out of /proc/sys/net
 */
export function sysctlOf(name: string, value: string, ifName: string): Sysctl {
  // A function, so that patterns such as $& are not replaced.
  const spelled = markInterface(name, ifName).replaceAll(".", "/")
    .replace("IFNAME", () => ifName);
  const parts = spelled.split("/").filter((part) => part !== "");
  const [first, ...rest] = parts;
  const isInside = first === "net" && rest.length > 0 &&
    !parts.some((part) => part === "." || part === ".." || part.includes("\0"));
  if (isInside) return { name, key: parts.join("/"), value };
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `invalid net sysctl key: ${JSON.stringify(spelled)}`,
  );
}

/**
 * Replaces the interface's name with IFNAME if it contains dots, such as `eth0.100`.
 */
function markInterface(name: string, ifName: string): string {
  if (!ifName.includes(".")) return name;
  const part = new RegExp(`(?<=[./])${RegExp.escape(ifName)}(?=[./])`);
  return name.replace(part, "IFNAME");
}

/**
 * Writes parameters in order.
 *
 * @param rollback Writes the old values, if they can be read
 * @throws {CniError} 5 if a parameter does not exist or the kernel refuses its value
 */
export function writeSysctls(
  netns: NetNs,
  sysctls: readonly Sysctl[],
  rollback: Rollback,
): void {
  for (const { key, value } of sysctls) {
    const write = (text: string): void =>
      inNetns(netns, () => writeSysctl(key, text));
    withIoFailure(`set sysctl ${key} to ${JSON.stringify(value)}`, () => {
      const before = readValue(netns, key);
      if (before !== undefined) {
        rollback.onFailure(`restore sysctl ${key}`, () => write(before));
      }
      write(value);
    });
  }
}

/**
 * Reads a parameter. Returns undefined if it cannot be read: it can only be
 * written, such as `net.ipv4.route.flush`, or has no value yet, such as
 * `net.ipv6.conf.eth0.stable_secret`.
 *
 * @throws {Deno.errors.NotFound} If the kernel lacks the parameter
 */
export function readValue(netns: NetNs, key: string): string | undefined {
  return inNetns(
    netns,
    () => isReadableSysctl(key) ? ifPossible(() => readSysctl(key)) : undefined,
  );
}
