import { assertFailure } from "../../tests/_harness/call_outcome.ts";
import { rootTest } from "../../testing/capabilities.ts";
import {
  type Change,
  CHANGES,
  checkAfterChanges,
  checkPrevResults,
  repairAfterChanges,
} from "../../tests/_harness/check_cases.ts";
import { dualStack } from "../../tests/_harness/dual_stack.ts";
import { runIn } from "../../testing/ip_json.ts";
import { PluginScene } from "../../tests/_harness/plugin_scene.ts";

/** Changes of ptp's routes to and through the gateways. */
const PTP_CHANGES: readonly Change[] = [
  [
    "no IPv4 forwarding from the host's end",
    "host",
    "sysctl -qw net.ipv4.conf.$VETH.forwarding=0",
    "IPv4 forwarding is off on",
  ],
  [
    "no route to the gateway",
    "sandbox",
    "ip route del 10.1.2.1",
    "lacks route 10.1.2.1/32",
  ],
  [
    "no route to the subnet",
    "sandbox",
    "ip route del 10.1.2.0/24",
    "lacks route 10.1.2.0/24 via 10.1.2.1",
  ],
  [
    "another default gateway",
    "sandbox",
    "ip route replace default via 10.1.2.9 dev eth0 onlink",
    "lacks route 0.0.0.0/0 via 10.1.2.1",
  ],
  [
    "no gateway address",
    "host",
    "ip addr del 10.1.2.1/32 dev $VETH",
    "lacks address 10.1.2.1/32",
  ],
  [
    "no route to the container",
    "host",
    "ip route del 10.1.2.2",
    "lacks route 10.1.2.2/32",
  ],
  [
    "no IPv6 route to the container",
    "host",
    "ip -6 route del 2001:db8:1::2",
    "lacks route 2001:db8:1::2/128",
  ],
  [
    "the route to the container in a table that nobody looks at",
    "host",
    "ip route del 10.1.2.2; ip route add 10.1.2.2 dev $VETH table 77",
    "lacks route 10.1.2.2/32",
  ],
  [
    "no preferred source",
    "sandbox",
    "ip route replace 10.1.2.0/24 via 10.1.2.1 dev eth0",
    "lacks route 10.1.2.0/24 via 10.1.2.1",
  ],
  [
    "host's end down, without a gateway address",
    "host",
    "ip link set $VETH down; ip addr del 10.1.2.1/32 dev $VETH",
    "is down",
    "lacks address 10.1.2.1/32",
    "lacks route 10.1.2.2/32",
  ],
];

rootTest("ptp.check() reports each change", (t) => {
  const makeScene = (): PluginScene => new PluginScene("ptp", dualStack);
  return checkAfterChanges(t, makeScene, [...CHANGES, ...PTP_CHANGES]);
});

rootTest("ptp.repair() restores each removed part", (t) =>
  repairAfterChanges(
    t,
    () => new PluginScene("ptp", (hosts) => dualStack(hosts, { ipMasq: true })),
    [...CHANGES, ...PTP_CHANGES],
    [
      "no interface",
      "another MAC",
      "another MAC, down, and no IPv4 address",
      "no lease",
    ],
  ));

rootTest("ptp.check() distinguishes interfaces of one network", async () => {
  using scene = new PluginScene("ptp", dualStack);
  const results = [];
  for (const ifName of ["eth0", "net1", "net2"]) {
    const { json } = await scene.succeed("ADD", {}, { ifName });
    results.push({ ifName, prevResult: json });
  }
  for (const { ifName, prevResult } of results) {
    await scene.succeed("CHECK", { prevResult }, { ifName });
  }
  const { sandbox } = scene.hosts;
  runIn(sandbox, "ip", "-6", "route", "del", "default", "dev", "net1");
  const prevResult = results[1]?.prevResult;
  const options = { ifName: "net1" };
  const checked = await scene.run("CHECK", { prevResult }, options);
  assertFailure(checked, 999, '"net1" lacks route ::/0');
});

rootTest("ptp.check() compares prevResult", async (t) => {
  using scene = new PluginScene("ptp", dualStack);
  await checkPrevResults(
    t,
    scene,
    () => [["missing", undefined, "ptp: Required prevResult missing"]],
  );
});
