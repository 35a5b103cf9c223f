import { bridgeConfig, switchConfig } from "./testing/bridge_network.ts";
import { rootTest } from "../../testing/capabilities.ts";
import {
  type Change,
  CHANGES,
  checkAfterChanges,
  checkPrevResults,
  repairAfterChanges,
} from "../../tests/_harness/check_cases.ts";
import { runIn } from "../../testing/ip_json.ts";
import { PluginScene } from "../../tests/_harness/plugin_scene.ts";

/** Changes that affect only a bridge and its ports. */
const BRIDGE_CHANGES: readonly Change[] = [
  [
    "no IPv4 forwarding from the bridge",
    "host",
    "sysctl -qw net.ipv4.conf.br0.forwarding=0",
    'IPv4 forwarding is off on "br0"',
  ],
  [
    "no route to the subnet",
    "sandbox",
    "ip route del 10.1.2.0/24",
    "lacks route 10.1.2.0/24",
  ],
  [
    "no IPv6 route to the subnet",
    "sandbox",
    "ip -6 route del 2001:db8:1::/64",
    "lacks route 2001:db8:1::/64",
  ],
  [
    "another default gateway",
    "sandbox",
    "ip route replace default via 10.1.2.9 dev eth0",
    "lacks route 0.0.0.0/0 via 10.1.2.1",
  ],
  ["no bridge", "host", "ip link del br0", '"br0" no longer exists'],
  ["the bridge down", "host", "ip link set br0 down", '"br0" is down'],
  [
    "another MAC of the bridge",
    "host",
    "ip link set br0 address 02:00:00:00:00:02",
    "has MAC 02:00:00:00:00:02",
  ],
  [
    "another kind of bridge",
    "host",
    "ip link del br0; ip link add br0 type veth peer name br1",
    '"br0" is not a bridge',
  ],
  [
    "the bridge not promiscuous",
    "host",
    "ip link set br0 promisc off",
    'Bridge "br0" is not promiscuous',
  ],
  ["no port", "host", "ip link set $VETH nomaster", 'is not a port of "br0"'],
  [
    "a port of another bridge",
    "host",
    "ip link add br9 type bridge; ip link set $VETH master br9",
    'is not a port of "br0"',
  ],
  [
    "another MAC of the port",
    "host",
    "ip link set $VETH address 02:00:00:00:00:03",
    "has MAC 02:00:00:00:00:03",
  ],
  [
    "hairpin mode on",
    "host",
    "ip link set $VETH type bridge_slave hairpin on",
    "has hairpin mode on",
  ],
  [
    "isolation off",
    "host",
    "ip link set $VETH type bridge_slave isolated off",
    "has isolation off",
  ],
  [
    "no gateway address",
    "host",
    "ip addr del 10.1.2.1/24 dev br0",
    'Interface "br0" lacks address 10.1.2.1/24',
  ],
  [
    "no IPv6 gateway address",
    "host",
    "ip addr del 2001:db8:1::1/64 dev br0",
    'Interface "br0" lacks address 2001:db8:1::1/64',
  ],
  [
    "no rules against spoofing",
    "host",
    "nft flush chain bridge nat PREROUTING",
    "sends with a different MAC are not dropped",
  ],
  [
    "no masquerade",
    "host",
    "iptables -t nat -F POSTROUTING",
    "The masquerade is missing",
  ],
  [
    "the bridge down, not promiscuous and without an address",
    "host",
    "ip link set br0 down promisc off; ip addr del 10.1.2.1/24 dev br0",
    '"br0" is down',
    'Bridge "br0" is not promiscuous',
    'Interface "br0" lacks address 10.1.2.1/24',
  ],
  [
    "the port down, and of no bridge",
    "host",
    "ip link set $VETH down nomaster; nft flush chain bridge nat PREROUTING",
    "is down",
    'is not a port of "br0"',
    "sends with a different MAC are not dropped",
  ],
];

function makeScene(): PluginScene {
  return new PluginScene("bridge", (hosts) =>
    bridgeConfig(hosts, {
      ipMasq: true,
      macspoofchk: true,
      promiscMode: true,
      portIsolation: true,
    }));
}

rootTest("bridge.check() reports each change", (t) => {
  return checkAfterChanges(t, makeScene, [...CHANGES, ...BRIDGE_CHANGES]);
});

rootTest(
  "bridge.repair() restores each removed part",
  (t) =>
    repairAfterChanges(t, makeScene, [...CHANGES, ...BRIDGE_CHANGES], [
      "no interface",
      "another MAC",
      "another MAC, down, and no IPv4 address",
      "no lease",
      "another MAC of the bridge",
      "another kind of bridge",
      "another MAC of the port",
    ]),
);

rootTest("bridge.check() accepts changes by other programs", async (t) => {
  await checkAfterChanges(t, () => new PluginScene("bridge", bridgeConfig), [
    [
      "another address of the bridge",
      "host",
      "ip addr add 10.77.0.1/24 dev br0",
    ],
    ["a promiscuous bridge", "host", "ip link set br0 promisc on"],
    ["another MTU", "host", "ip link set br0 mtu 1300"],
    [
      "routes in another table",
      "sandbox",
      "ip route add 10.1.2.0/24 dev eth0 table 77; ip route add default via 10.1.2.1 dev eth0 table 77; ip route del default; ip route del 10.1.2.0/24",
    ],
    ["one more address", "sandbox", "ip addr add 10.88.0.1/24 dev eth0"],
  ]);
  await t.step("the MAC of a bridge without addresses", async () => {
    using scene = new PluginScene("bridge", () => switchConfig());
    const { json: prevResult } = await scene.succeed("ADD");
    const address = ["address", "02:00:00:00:00:04"];
    runIn(scene.hosts.host, "ip", "link", "set", "br0", ...address);
    await scene.succeed("CHECK", { prevResult });
  });
});

rootTest("bridge.check() compares prevResult", async (t) => {
  using scene = new PluginScene("bridge", bridgeConfig);
  await checkPrevResults(t, scene, (result) => {
    const [bridge, hostEnd, containerEnd] = result.interfaces;
    return [
      ["missing", undefined, "Required prevResult missing"],
      [
        "no bridge",
        { ...result, interfaces: [hostEnd, containerEnd] },
        'no interface "br0" of the host',
      ],
      [
        "no port",
        { ...result, interfaces: [bridge, containerEnd] },
        "of the host",
      ],
      ["in another order", {
        ...result,
        interfaces: [containerEnd, hostEnd, bridge],
        ips: result.ips.map((ip) => ({ ...ip, interface: 0 })),
      }, undefined],
    ];
  });
});
