import { assertEquals } from "@std/assert";
import type { NetNs } from "../../ffi/netns.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn, stockOf } from "../../testing/ip_json.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { writeFakeIpam } from "../../tests/_harness/fake_ipam.ts";
import { type Keys, PluginScene } from "../../tests/_harness/plugin_scene.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { BridgeVlansInstead, FakeBridgeVlans } from "./testing/fake_vlans.ts";

/** A node with an uplink, and a bridge whose containers ask for addresses. */
class Scene extends PluginScene {
  constructor() {
    super("bridge", () => ({
      cniVersion: "1.0.0",
      name: "net1",
      type: "bridge",
      bridge: "br-lan",
      ipam: { type: "static" },
    }));
    runIn(
      this.hosts.host,
      "sh",
      "-ec",
      `ip link add uplink type veth peer name wire
       ip link set uplink up; ip link set wire up
       ip address add 192.0.2.7/24 dev uplink
       ip route add default via 192.0.2.254`,
    );
  }

  /** A container that asks for addresses as Go's multus hands them over. */
  asking(...ips: string[]): {
    sandbox: NetNs;
    containerId: string;
    env: Record<string, string>;
  } {
    const CNI_ARGS = `IgnoreUnknown=true;K8S_POD_NAME=web;IP=${ips.join(",")}`;
    const sandbox = this.hosts.addNetns();
    return { sandbox, containerId: "other", env: { CNI_ARGS } };
  }
}

const TAKEN = "10.60.0.5/24";
const inArgs = (ips: string[]): Keys => ({ args: { cni: { IPs: ips } } });
const offered = (ips: string[]): Keys => ({ runtimeConfig: { ips } });

rootTest("bridge.add() refuses another container's address", async (t) => {
  const refused = [
    11,
    'Cannot give the container 10.60.0.5: 10.60.0.5 is in use by "veth',
  ] as const;
  const rows: [name: string, keys: Keys, ips: string[]][] = [
    ["CNI_ARGS", {}, [TAKEN]],
    ["another length", {}, ["10.60.0.99/24", "10.60.0.5/8"]],
    ["another network of the bridge", { name: "net2" }, [TAKEN]],
    [
      "beside the configured address",
      { ipam: { type: "static", addresses: [{ address: "10.60.0.200/24" }] } },
      [TAKEN],
    ],
    ["cni-args", inArgs([TAKEN]), []],
    ["the capability", offered([TAKEN]), []],
    ["of IPv6", {}, ["fd60::5/64"]],
  ];
  await eachRow(t, rows, async ([name, keys, ips]) => {
    using scene = new Scene();
    const owner = offered([TAKEN, "fd60::5/64"]);
    const { json: prevResult } = await scene.succeed("ADD", owner);
    const before = stockOf(scene.hosts);
    const code = name === "of IPv6"
      ? [11, "Cannot give the container fd60::5"] as const
      : refused;
    const other = scene.asking(...ips);
    await scene.fail("ADD", code, keys, other);
    assertEquals(stockOf(scene.hosts), before);
    await scene.succeed("CHECK", { ...owner, prevResult });
    await scene.succeed("DEL", keys, other);
    // Another bridge is another network.
    await scene.succeed("ADD", { ...keys, bridge: "br-other" }, other);
    await scene.succeed("DEL", { ...keys, bridge: "br-other" }, other);
  }, ([name]) => name);
});

rootTest(
  "bridge.add() accepts the address of a dead container",
  async () => {
    using scene = new Scene();
    await scene.succeed("ADD", offered([TAKEN]));
    // The container was restarted without a DEL.
    const again = scene.hosts.addNetns();
    await scene.succeed("ADD", offered([TAKEN]), { sandbox: again });
    again[Symbol.dispose]();
    // The kernel ends a namespace some time after its last user.
    await eventually(
      "the address is free",
      async () =>
        (await scene.run("ADD", {}, scene.asking(TAKEN))).exitCode === 0,
    );
  },
);

rootTest("bridge.add() does not check configured addresses", async () => {
  using scene = new Scene();
  const addresses = [{ address: TAKEN }, { address: "192.0.2.7/24" }];
  const keys = { ipam: { type: "static", addresses } };
  await scene.succeed("ADD", keys);
  await scene.succeed("ADD", keys, {
    sandbox: scene.hosts.addNetns(),
    containerId: "other",
  });
});

rootTest("bridge.add() refuses an address that the host has", async (t) => {
  const gateway = { isGateway: true };
  const rows: [name: string, ip: string, text: string, keys?: Keys][] = [
    ["its address", "192.0.2.7/24", 'the host has it on "uplink"'],
    ["127.0.0.2", "127.0.0.2/8", 'the host has it on "lo"'],
    [
      "a router on the bridge",
      "10.60.0.254/24",
      "the host has routes through it",
    ],
    [
      "its network, by the gateway",
      "192.0.2.9/24",
      'Cannot assign 192.0.2.1/24 to "br-gw": the host reaches 192.0.2.0/24 over "uplink"',
      { ...gateway, bridge: "br-gw" },
    ],
    [
      "a part of it",
      "192.0.2.130/25",
      'the host reaches 192.0.2.0/24 over "uplink"',
      { ...gateway, bridge: "br-gw" },
    ],
    [
      "all networks",
      "5.5.5.5/0",
      'Cannot assign 0.0.0.1/0 to "br-gw": the host reaches',
      { ...gateway, bridge: "br-gw" },
    ],
    [
      "another container's network",
      "10.0.0.9/8",
      'the host reaches 10.9.0.0/16 over "br-lan"',
      { ...gateway, bridge: "br-gw", forceAddress: true },
    ],
    [
      "the gateway of others",
      "10.99.0.9/24",
      '"br-lan" already has an IP address different from 10.99.0.1/24',
      { ...gateway, forceAddress: true },
    ],
  ];
  await eachRow(t, rows, async ([, ip, text, keys = {}]) => {
    using scene = new Scene();
    await scene.succeed("ADD", { ...gateway, ...offered([TAKEN]) });
    runIn(
      scene.hosts.host,
      ...["ip", "route", "add", "10.9.0.0/16", "via", "10.60.0.254"],
    );
    const before = runIn(scene.hosts.host, "ip", "-4", "-brief", "address");
    // A third-party IPAM plugin that assigns what a pod requests.
    const { type } = writeFakeIpam(scene.hosts.path, {
      ADD: { stdout: { cniVersion: "1.0.0", ips: [{ address: ip }] } },
    });
    for (const ipam of ["static", type]) {
      const other = scene.asking(ip);
      const all = { ...keys, ipam: { type: ipam } };
      await scene.fail("ADD", [7, text], all, other);
      await scene.succeed("DEL", all, other);
      assertEquals(
        runIn(scene.hosts.host, "ip", "-4", "-brief", "address"),
        before,
      );
    }
  }, ([name]) => name);
});

rootTest("bridge.add() refuses the address of the VLAN's router", async (t) => {
  const rows: [name: string, keys: Keys, place: string, isRefused: boolean][] =
    [
      ["over its own link", { vlan: 100 }, "br-lan.100", true],
      [
        "over its own link, as the gateway",
        { vlan: 100, isGateway: true },
        "br-lan.100",
        true,
      ],
      ["over the bridge in the same VLAN", { vlan: 1 }, "br-lan", true],
      ["over the bridge in a different VLAN", { vlan: 100 }, "br-lan", false],
      ["over the link of a different VLAN", {}, "br-lan.100", false],
    ];
  await eachRow(t, rows, async ([, keys, place, isRefused]) => {
    using scene = new Scene();
    using _vlans = new BridgeVlansInstead();
    await scene.succeed("ADD", { vlan: 100, ...offered([TAKEN]) });
    runIn(
      scene.hosts.host,
      "sh",
      "-ec",
      `ip link add br-lan.100 type veth peer name wire100
       ip link set br-lan.100 up; ip link set wire100 up
       ip address add 10.61.0.2/24 dev ${place}
       ip route add 10.9.0.0/16 via 10.61.0.254`,
    );
    const other = scene.asking("10.61.0.254/24");
    if (isRefused) {
      const text = "10.61.0.254: the host has routes through it";
      await scene.fail("ADD", [7, text], keys, other);
    } else {
      await scene.succeed("ADD", keys, other);
    }
    await scene.succeed("DEL", keys, other);
  }, ([name]) => name);
});

rootTest(
  "bridge.add() compares addresses in the VLAN of the port",
  async (t) => {
    const rows: [name: string, owner: Keys, keys: Keys, isRefused: boolean][] =
      [
        ["the bridge's default VLAN", {}, {}, true],
        ["the default VLAN by its number", {}, { vlan: 10 }, true],
        ["the default VLAN of a trunk, preserved", {}, {
          vlanTrunk: [{ id: 7 }],
          preserveDefaultVlan: true,
        }, true],
        ["the native VLAN of a trunk", {}, { vlanTrunk: [{ id: 7 }] }, false],
        ["the native VLAN of two trunks", { vlanTrunk: [{ id: 8 }] }, {
          vlanTrunk: [{ id: 7 }],
        }, true],
        ["a different VLAN", {}, { vlan: 1 }, false],
      ];
    await eachRow(t, rows, async ([, owner, keys, isRefused]) => {
      using scene = new Scene();
      const table = new FakeBridgeVlans(["10 pvid untagged"]);
      using _vlans = new BridgeVlansInstead(table);
      // The bridge filters VLANs from here on.
      const first = { sandbox: scene.hosts.addNetns(), containerId: "first" };
      await scene.succeed("ADD", { vlan: 7, ipam: {} }, first);
      await scene.succeed("ADD", { ...owner, ...offered([TAKEN]) });
      const other = scene.asking(TAKEN);
      if (isRefused) {
        await scene.fail("ADD", [11, "10.60.0.5 is in use by"], keys, other);
      } else {
        await scene.succeed("ADD", keys, other);
      }
      await scene.succeed("DEL", keys, other);
    }, ([name]) => name);
  },
);
