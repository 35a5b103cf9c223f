/**
 * The scene of tests of bridge.
 *
 * @module
 */

import type { NetNs } from "../../../ffi/netns.ts";
import { assertSuccess } from "../../../tests/_harness/call_outcome.ts";
import { canUseNetns, ignoreUnless } from "../../../testing/capabilities.ts";
import type { Keys } from "../../../tests/_harness/plugin_scene.ts";
import type { TestHosts } from "../../../testing/test_hosts.ts";

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
