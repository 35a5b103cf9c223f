/**
 * What tests of bridge begin with.
 *
 * @module
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { NetNs } from "../../ffi/netns.ts";
import { canUseNetns, ignoreUnless } from "./capabilities.ts";
import type { CallOutput, TestHosts } from "./test_hosts.ts";

/** A configuration of the plugin. */
export type BridgeTestConfig = Record<string, unknown>;

/** A configuration for one subnet each of IPv4 and IPv6, with the bridge as the gateway. */
export function bridgeConfig(
  hosts: TestHosts,
  extras: BridgeTestConfig = {},
): BridgeTestConfig {
  return {
    cniVersion: "1.1.0",
    name: "net1",
    type: "bridge",
    bridge: "br0",
    isDefaultGateway: true,
    ipam: hosts.hostLocal("10.1.2.0/24", "2001:db8:1::/64"),
    ...extras,
  };
}

/** A configuration of a switch and no more. */
export function switchConfig(extras: BridgeTestConfig = {}): BridgeTestConfig {
  return {
    cniVersion: "1.1.0",
    name: "net1",
    type: "bridge",
    bridge: "br0",
    ...extras,
  };
}

/** Asserts that a call succeeded and had nothing to say on stderr. */
export function assertSuccess({ exitCode, stdout, stderr }: CallOutput): void {
  assertEquals({ exitCode, stderr }, { exitCode: 0, stderr: "" }, stdout);
}

/** Asserts that a call failed with a code, and with a text in message or details. */
export function assertFailure(
  output: CallOutput,
  code: number,
  text: string,
): void {
  assertEquals(output.exitCode, 1, output.stdout);
  assertEquals(output.json.code, code, output.stdout);
  assertStringIncludes(`${output.json.msg}; ${output.json.details}`, text);
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
    dataDir: `${hosts.folder}/other-leases`,
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

/** Skips what needs a kernel whose bridges have VLANs. */
export const needsBridgeVlans = ignoreUnless(
  tryBridgeVlans(),
  "needs a kernel with CONFIG_BRIDGE_VLAN_FILTERING",
);

function tryBridgeVlans(): boolean {
  if (!canUseNetns) return false;
  const args = "-n ip link add br0 type bridge vlan_filtering 1".split(" ");
  const options = { args, stderr: "null", stdout: "null" } as const;
  return new Deno.Command("unshare", options).outputSync().success;
}
