import { assertEquals } from "@std/assert";
import { allOf, rootTest } from "../../../testing/capabilities.ts";
import { runIn } from "../../../testing/ip_json.ts";
import { eventually } from "../../../tests/_harness/eventually.ts";
import { writeFakeIpam } from "../../../tests/_harness/fake_ipam.ts";
import { needsLinks } from "../../../tests/_harness/link_kinds.ts";
import {
  type Keys,
  PluginScene,
} from "../../../tests/_harness/plugin_scene.ts";

const MAC = "02:00:00:00:00:05";
const BRIDGE = ["link add br0 type bridge", "link set eth9 master br0"];
const ADDRESS = {
  ipam: { type: "static", addresses: [{ address: "10.1.2.3/24" }] },
};

/** A refusal of the kernel: the plugin, what there is before, and the error. */
const ROWS: readonly [
  type: string,
  keys: Keys,
  before: readonly string[],
  msg: string,
  details: RegExp,
][] = [
  [
    "macvlan",
    { mac: MAC },
    [
      `link add mv0 link eth9 address ${MAC} type macvlan mode bridge`,
      "link set mv0 up",
    ],
    `Cannot bring "eth0" up on master "eth9", mode bridge, MAC ${MAC}`,
    /^another link on the master has this MAC: choose a different MAC: .*EADDRINUSE/,
  ],
  [
    "macvlan",
    {},
    BRIDGE,
    'Cannot create macvlan "eth0" on master "eth9", mode bridge',
    /^the master is a port of a bridge or bond, .*: choose a different master: .*EBUSY/,
  ],
  [
    "macvlan",
    { mode: "passthru", mtu: 1400 },
    ["link add mv0 link eth9 type macvlan mode bridge"],
    'Cannot create macvlan "eth0" on master "eth9", mode passthru, MTU 1400',
    /^the master is not an Ethernet link, or it has several macvlans, .*EINVAL/,
  ],
  [
    "macvlan",
    { mtu: 10 },
    [],
    'Cannot create macvlan "eth0" on master "eth9", mode bridge, MTU 10',
    /EINVAL: mtu less than device minimum/,
  ],
  [
    "ipvlan",
    {},
    BRIDGE,
    'Cannot create ipvlan "eth0" on master "eth9", mode l2',
    /^the master is a port of a bridge or bond, .*: choose a different master: .*EBUSY/,
  ],
  [
    "ipvlan",
    ADDRESS,
    [
      "link add iv0 link eth9 type ipvlan mode l2",
      "link set iv0 up",
      "address add 10.1.2.3/24 dev iv0",
    ],
    'Cannot add address 10.1.2.3/24 to "eth0" on master "eth9", mode l2',
    /^another ipvlan on the master has this address: .*EADDRINUSE/,
  ],
  [
    "vlan",
    { vlanId: 7 },
    ["link add eth9.7 link eth9 type vlan id 7"],
    'Cannot create vlan "eth0" on master "eth9", VLAN 7',
    /^another link on the host or in a container is in this VLAN of the master: .*EEXIST/,
  ],
  [
    "vlan",
    { vlanId: 7 },
    ["link set eth9 down"],
    'Cannot bring "eth0" up on master "eth9", VLAN 7',
    /^the master is down: run ip link set eth9 up: .*ENETDOWN/,
  ],
];

for (const [type, keys, before, msg, details] of ROWS) {
  const name = `${type} says why the kernel refuses it: ${msg}`;
  rootTest(name, allOf(needsLinks(type)), async () => {
    using scene = new PluginScene(type, (hosts) => ({
      cniVersion: "1.1.0",
      name: "net1",
      type,
      master: "eth9",
      ipam: hosts.hostLocal("10.1.2.0/24"),
      ...keys,
    }));
    const { host } = scene.hosts;
    for (
      const command of [
        "link add eth9 type veth peer name up9",
        // No link-local addresses, which the kernel adds later.
        "link set up9 addrgenmode none",
        "link set eth9 addrgenmode none",
        "link set up9 up",
        "link set eth9 up",
        ...before,
      ]
    ) runIn(host, "ip", ...command.split(" "));
    const isUp = !before.includes("link set eth9 down");
    await eventually("the kernel has noticed which links are up", () => {
      const states = ["eth9", "up9"].map((name) =>
        runIn(host, "ip", "-br", "link", "show", name).split(/\s+/)[1]
      );
      return String(states) === (isUp ? "UP,UP" : "DOWN,LOWERLAYERDOWN");
    });
    const { state } = scene;
    const { exitCode, json } = await scene.run("ADD");
    assertEquals([exitCode, json.msg], [1, msg]);
    assertEquals(details.test(json.details), true, json.details);
    assertEquals(scene.state, state);
  });
}

for (const type of ["macvlan", "ipvlan"]) {
  rootTest(
    `${type} refuses an address that the host has on the master`,
    needsLinks(type),
    async () => {
      using scene = new PluginScene(type, () => ({
        cniVersion: "1.1.0",
        name: "net1",
        type,
        master: "eth9",
        ipam: { type: "static" },
      }));
      for (
        const command of [
          "link add eth9 type veth peer name up9",
          "link set up9 up",
          "link set eth9 up",
          "address add 192.0.2.7/24 dev eth9",
          "route add default via 192.0.2.254",
        ]
      ) runIn(scene.hosts.host, "ip", ...command.split(" "));
      const { state } = scene;
      /** What a pod asks for, as Go's multus hands it over. */
      const asking = (ip: string): { env: Record<string, string> } => ({
        env: { CNI_ARGS: `IgnoreUnknown=true;K8S_POD_NAME=web;IP=${ip}` },
      });
      for (
        const [ip, why] of [
          ["192.0.2.7", 'the host has it on "eth9"'],
          ["192.0.2.255", 'the host has it on "eth9"'],
          ["192.0.2.254", "the host has routes through it"],
        ] as const
      ) {
        const text = `Cannot give the container ${ip}: ${why}`;
        // A third-party IPAM plugin that assigns what a pod requests.
        const fake = writeFakeIpam(scene.hosts.path, {
          ADD: {
            stdout: { cniVersion: "1.0.0", ips: [{ address: `${ip}/24` }] },
          },
        });
        for (const ipam of ["static", fake.type]) {
          const keys = { ipam: { type: ipam } };
          await scene.fail("ADD", [7, text], keys, asking(`${ip}/24`));
          assertEquals(scene.state, state);
        }
      }
      await scene.succeed("ADD", {}, asking("192.0.2.60/24"));
      await scene.succeed("DEL");
      // What the configuration has is its author's.
      const addresses = [{ address: "192.0.2.254/24" }];
      await scene.succeed("ADD", { ipam: { type: "static", addresses } });
    },
  );
}
