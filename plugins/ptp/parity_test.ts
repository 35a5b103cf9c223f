/**
 * ptp  compared with the Go plugin: what each leaves in the namespaces on the
 * same configuration. The differences that are meant are listed here, and
 * nowhere else is a difference allowed.
 */

import type { NetNs } from "../../ffi/netns.ts";
import {
  listPeers,
  normaliseResult,
  observeNetns,
  succeedAs,
  testLeavesTheSame,
} from "../../tests/_harness/parity.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { TestHosts } from "../../testing/test_hosts.ts";

const ROWS: [string, string[], { dst: string; gw?: string }[]][] = [
  ["IPv4", ["10.1.2.0/24"], [{ dst: "0.0.0.0/0" }]],
  ["IPv6", ["2001:db8:1::/64"], [{ dst: "::/0" }]],
  ["both families", ["10.1.2.0/24", "2001:db8:1::/64"], [
    { dst: "0.0.0.0/0" },
    { dst: "::/0" },
  ]],
  ["several routes", ["10.1.2.0/24"], [
    { dst: "192.168.0.0/16" },
    { dst: "1.2.3.4/32" },
    { dst: "172.16.0.0/12", gw: "10.1.2.1" },
  ]],
  ["no route", ["10.1.2.0/24"], []],
];

function configFor(
  hosts: TestHosts,
  [, subnets, routes]: typeof ROWS[number],
): Keys {
  return {
    cniVersion: "1.0.0",
    name: "net1",
    type: "ptp",
    mtu: 1400,
    ipam: { ...hosts.hostLocal(...subnets), routes },
  };
}

/**
 * A difference that is meant: our addresses have `noprefixroute`, for the
 * kernel's route to the prefix would have to be deleted again. To the host's
 * IPv6 gateway address the kernel makes a route too; the address is in the
 * local table in any case.
 */
async function observe(netns: NetNs): Promise<unknown> {
  return await observeNetns(netns, ({ protocol }) => protocol !== "kernel");
}

for (const peer of listPeers("ptp")) {
  for (const row of ROWS) {
    testLeavesTheSame(peer, ["ptp", row[0]], async (who) => {
      using hosts = TestHosts.create();
      const config = configFor(hosts, row);
      const call = { type: "ptp", command: "ADD", config };
      const { stdout } = await succeedAs(who, hosts, call);
      return {
        result: normaliseResult(stdout, hosts),
        host: await observe(hosts.host),
        sandbox: await observe(hosts.sandbox),
      };
    });
  }
}
