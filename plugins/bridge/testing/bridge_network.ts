/**
 * The scene of tests of bridge.
 *
 * @module
 */

import type { NetNs } from "../../../ffi/netns.ts";
import { canUseNetns, ignoreUnless } from "../../../testing/capabilities.ts";
import { runIn } from "../../../testing/ip_json.ts";
import type { TestHosts } from "../../../testing/test_hosts.ts";
import { assertSuccess } from "../../../tests/_harness/call_outcome.ts";
import type { Keys } from "../../../tests/_harness/plugin_scene.ts";

/** A configuration of a switch and no more. */
export function switchConfig(extras: Keys = {}): Keys {
  return {
    cniVersion: "1.1.0",
    name: "net1",
    type: "bridge",
    bridge: "br0",
    ...extras,
  };
}

/** A configuration for one subnet each of IPv4 and IPv6, with the bridge as the gateway. */
export function bridgeConfig(hosts: TestHosts, extras: Keys = {}): Keys {
  return switchConfig({
    isDefaultGateway: true,
    ipam: hosts.hostLocal("10.1.2.0/24", "2001:db8:1::/64"),
    ...extras,
  });
}

/**
 * Attaches a container that stays: so the bridge is there, and has a carrier
 * all the time, of whose coming and going the kernel takes note when it likes.
 *
 * @returns Its namespace
 */
export async function occupy(hosts: TestHosts): Promise<NetNs> {
  const sandbox = hosts.addNetns();
  const ipam = {
    ...hosts.hostLocal("10.1.2.0/24", "2001:db8:1::/64"),
    dataDir: `${hosts.directory}/other-leases`,
    ranges: [
      [{ subnet: "10.1.2.0/24", rangeStart: "10.1.2.100" }],
      [{ subnet: "2001:db8:1::/64", rangeStart: "2001:db8:1::100" }],
    ],
  };
  const options = { sandbox, containerId: "first" };
  const config = bridgeConfig(hosts, { ipam });
  assertSuccess(await hosts.run("bridge", "ADD", config, options));
  return sandbox;
}

const hasBridgeVlans = tryBridgeVlans();

/** Skips tests that need VLANs on bridges. */
export const needsBridgeVlans = ignoreUnless(
  hasBridgeVlans,
  "needs a kernel with CONFIG_BRIDGE_VLAN_FILTERING",
);

/** Skips tests that need a kernel without VLANs on bridges. */
export const needsNoBridgeVlans = ignoreUnless(
  !hasBridgeVlans,
  "needs a kernel without CONFIG_BRIDGE_VLAN_FILTERING",
);

function tryBridgeVlans(): boolean {
  if (!canUseNetns) return false;
  const args = "-n ip link add br0 type bridge vlan_filtering 1".split(" ");
  const options = { args, stderr: "null", stdout: "null" } as const;
  return new Deno.Command("unshare", options).outputSync().success;
}

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
