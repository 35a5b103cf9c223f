/**
 * VLANs of a bridge's ports, as iproute2 shows and changes them.
 *
 * @module
 */

import type { NetNs } from "../../ffi/netns.ts";
import { runIn } from "../../testing/ip_json.ts";

/** A port's VLANs as `bridge -j -compressvlans vlan` prints them. */
interface PrintedPort {
  readonly ifname: string;
  readonly vlans: readonly {
    readonly vlan: number;
    readonly vlanEnd?: number;
    readonly flags?: readonly string[];
  }[];
}

/**
 * Lists the VLANs of a port, as `100 PVID Egress Untagged` and `200-210`.
 *
 * @param ifName The port's name; iproute2 does not print a port without VLANs
 */
export function portVlans(host: NetNs, ifName: string): string[] {
  const text = runIn(host, "bridge", "-j", "-compressvlans", "vlan", "show");
  const ports: PrintedPort[] = JSON.parse(text);
  const port = ports.find(({ ifname }) => ifname === ifName);
  return (port?.vlans ?? []).map(({ vlan, vlanEnd, flags = [] }) =>
    [vlanEnd ? `${vlan}-${vlanEnd}` : `${vlan}`, ...flags].join(" ")
  );
}

/**
 * Changes a port as an operator would.
 *
 * @param change For example `add vid 7 pvid`
 */
export function changePortVlans(
  host: NetNs,
  ifName: string,
  change: string,
): void {
  const [verb = "", ...rest] = change.split(" ");
  runIn(host, "bridge", "vlan", verb, "dev", ifName, ...rest);
}
