/**
 * VLANs of bridges in the kernel, as `bridge vlan` shows them: every kind of
 * port, CHECK after somebody changed one, DEL, GC, and which frames reach whom.
 */

import { assert, assertEquals } from "@std/assert";
import type { NetNs } from "../../ffi/netns.ts";
import {
  bridgeConfig,
  changePortVlans,
  needsBridgeVlans,
  portVlans,
  switchConfig,
} from "../../plugins/bridge/testing/bridge_network.ts";
import { assertFailure, assertSuccess } from "../_harness/call_outcome.ts";
import { allOf, needsRoot } from "../../testing/capabilities.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import {
  findReached,
  ipJson,
  linkNames,
  runIn,
  stockOf,
} from "../../testing/ip_json.ts";
import { type Keys, PluginScene } from "../_harness/plugin_scene.ts";
import { type CallOutput, TestHosts } from "../../testing/test_hosts.ts";

/** VLANs of a port, as iproute2 prints them. */
const ACCESS = "100 PVID Egress Untagged", NATIVE = "1 PVID Egress Untagged";
const TAGGED = ["101", "200-210"];
const TRUNK = [{ id: 101 }, { minID: 200, maxID: 210 }];
const EVERY_VLAN = [{ minID: 1, maxID: 4094 }];

/** A kind of port: the keys that ask for it, and its VLANs. */
type Port = readonly [keys: Keys, want: readonly string[]];

const PORTS: Readonly<Record<string, Port>> = {
  "access": [{ vlan: 100 }, [ACCESS]],
  "access in the default VLAN": [{ vlan: 1 }, [NATIVE]],
  "access in the last VLAN": [{ vlan: 4094 }, ["4094 PVID Egress Untagged"]],
  "access, the default VLAN preserved": [
    { vlan: 100, preserveDefaultVlan: true },
    ["1 Egress Untagged", ACCESS],
  ],
  "trunk": [{ vlanTrunk: TRUNK }, [NATIVE, ...TAGGED]],
  "trunk, the default VLAN preserved": [
    { vlanTrunk: TRUNK, preserveDefaultVlan: true },
    [NATIVE, ...TAGGED],
  ],
  "trunk with a native VLAN": [
    { vlan: 100, vlanTrunk: TRUNK },
    [ACCESS, ...TAGGED],
  ],
  "trunk that includes its native VLAN": [
    { vlan: 205, vlanTrunk: TRUNK },
    ["101", "200-204", "205 PVID Egress Untagged", "206-210"],
  ],
  "trunk of overlapping ranges": [
    {
      vlanTrunk: [
        { minID: 20, maxID: 30 },
        { id: 31, minID: 25, maxID: 28 },
        { id: 20 },
      ],
    },
    [NATIVE, "20-31"],
  ],
  "trunk of every VLAN": [{ vlanTrunk: EVERY_VLAN }, [NATIVE, "2-4094"]],
};

/** Bridges that exist before ADD, as arguments of `ip`. */
const WITHOUT_FILTERING = "link add br0 up type bridge";
const WITH_DEFAULT = (id: number): string =>
  `link add br0 up type bridge vlan_filtering 1 vlan_default_pvid ${id}`;

/** Kinds of port on a bridge that gives every port VLAN 5, or none. */
const PORTS_ELSEWHERE: Readonly<
  Record<string, readonly [...Port, bridge: string]>
> = {
  "access, another default VLAN": [{ vlan: 100 }, [ACCESS], WITH_DEFAULT(5)],
  "access, another default VLAN preserved": [
    { vlan: 100, preserveDefaultVlan: true },
    ["5 Egress Untagged", ACCESS],
    WITH_DEFAULT(5),
  ],
  "trunk, another default VLAN": [
    { vlanTrunk: TRUNK },
    [NATIVE, ...TAGGED],
    WITH_DEFAULT(5),
  ],
  "trunk, another default VLAN preserved": [
    { vlanTrunk: TRUNK, preserveDefaultVlan: true },
    ["5 PVID Egress Untagged", ...TAGGED],
    WITH_DEFAULT(5),
  ],
  "access, no default VLAN": [{ vlan: 100 }, [ACCESS], WITH_DEFAULT(0)],
  "trunk, no default VLAN to preserve": [
    { vlanTrunk: TRUNK, preserveDefaultVlan: true },
    [NATIVE, ...TAGGED],
    WITH_DEFAULT(0),
  ],
};

/** Runs `ip` or another program of iproute2. */
function runLine(netns: NetNs, line: string): void {
  const [program = "", ...args] = line.split(" ");
  runIn(netns, program, ...args);
}

/** Attaches, looks at the port, and detaches twice. */
function asPort([keys, want]: Port, bridge?: string): Row {
  return async () => {
    using scene = new PluginScene("bridge", () => switchConfig(keys));
    const { host, sandbox } = scene.hosts;
    if (bridge !== undefined) runLine(host, `ip ${bridge}`);
    const { json: prevResult } = await scene.succeed("ADD");
    const port = prevResult.interfaces[1].name;
    assertEquals(portVlans(host, port), want);
    await scene.succeed("CHECK", { prevResult });
    for (const _ of ["DEL", "DEL again"]) {
      await scene.succeed("DEL", { prevResult });
      assertEquals(linkNames(host), ["lo", "br0"]);
      assertEquals(linkNames(sandbox), ["lo"]);
    }
  };
}

/** Changes by `bridge vlan`, and what CHECK says of them. */
const CHANGES: Readonly<
  Record<string, readonly [keys: Keys, change: string, text?: string]>
> = {
  "without its VLAN": [{ vlan: 100 }, "del vid 100", "lacks VLAN 100"],
  "tagged": [{ vlan: 100 }, "add vid 100 pvid", "lacks VLAN 100"],
  "without its PVID": [{ vlan: 100 }, "add vid 100 untagged", "lacks VLAN 100"],
  "with another PVID": [
    { vlan: 100 },
    "add vid 7 pvid untagged",
    "lacks VLAN 100",
  ],
  "in one VLAN more": [{ vlan: 100 }, "add vid 7", "is also in VLAN 7"],
  "in one VLAN more, where others are preserved": [
    { vlan: 100, preserveDefaultVlan: true },
    "add vid 7",
  ],
  "with a gap in its trunk": [
    { vlanTrunk: TRUNK },
    "del vid 205",
    "lacks VLAN 200-210",
  ],
  "with an untagged VLAN in its trunk": [
    { vlanTrunk: TRUNK },
    "add vid 101 untagged",
    "lacks VLAN 101",
  ],
  "without its native VLAN": [
    { vlanTrunk: TRUNK },
    "del vid 1",
    "lacks VLAN 1",
  ],
};

/** CHECK of a port that another program changed. */
function asChanged(keys: Keys, change: string, text?: string): Row {
  return async () => {
    using scene = new PluginScene("bridge", () => switchConfig(keys));
    const { json: prevResult } = await scene.succeed("ADD");
    const port = prevResult.interfaces[1].name;
    await scene.succeed("CHECK", { prevResult });
    changePortVlans(scene.hosts.host, port, change);
    if (text === undefined) await scene.succeed("CHECK", { prevResult });
    else {
      await scene.fail("CHECK", [999, `"${port}" ${text}`], { prevResult });
    }
    await scene.succeed("DEL", { prevResult });
  };
}

/** Containers on one bridge, each with its own keys. */
class Ports implements Disposable {
  readonly hosts = TestHosts.create();
  readonly host: NetNs = this.hosts.host;

  /** Runs a command that must succeed. */
  async run(
    command: string,
    config: Keys,
    containerId: string,
    sandbox?: NetNs,
  ): Promise<CallOutput["json"]> {
    const options = { containerId, ...sandbox && { sandbox } };
    const output = await this.hosts.run("bridge", command, config, options);
    assertSuccess(output);
    return output.json;
  }

  /** Adds a container. */
  async add(containerId: string, config: Keys): Promise<NetNs> {
    const sandbox = this.hosts.addNetns();
    await this.run("ADD", config, containerId, sandbox);
    return sandbox;
  }

  /** A switch where containers have addresses, but the host has none. */
  switched(keys: Keys): Keys {
    return switchConfig({ ipam: this.hosts.hostLocal("10.1.2.0/24"), ...keys });
  }

  /** A separate network with the host as gateway. */
  routed(vlan: number): Keys {
    const subnets = [`10.1.${vlan}.0/24`, `2001:db8:${vlan}::/64`];
    return bridgeConfig(this.hosts, {
      name: `net${vlan}`,
      vlan,
      ipam: this.hosts.hostLocal(...subnets),
    });
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

const ONCE: Readonly<Record<string, Row>> = {
  "CHECK of a bridge that no longer filters VLANs": async () => {
    using scene = new PluginScene("bridge", () => switchConfig({ vlan: 100 }));
    const { json: prevResult } = await scene.succeed("ADD");
    const { host } = scene.hosts;
    runLine(host, "ip link set br0 type bridge vlan_filtering 0");
    const text = 'Bridge "br0" does not filter VLANs';
    await scene.fail("CHECK", [999, text], { prevResult });
    await scene.succeed("DEL", { prevResult });
  },
  "ports beside a trunk of every VLAN": async () => {
    using ports = new Ports();
    await ports.add("wide", switchConfig({ vlanTrunk: EVERY_VLAN }));
    const sandbox = ports.hosts.addNetns();
    const config = switchConfig({ vlan: 100 });
    const prevResult = await ports.run("ADD", config, "access", sandbox);
    const withResult = { ...config, prevResult };
    await ports.run("CHECK", withResult, "access", sandbox);
    assertEquals(
      portVlans(ports.host, prevResult.interfaces[1].name),
      [ACCESS],
    );
  },
  "containers reach those in their own VLAN": async () => {
    using ports = new Ports();
    const first = await ports.add("a", ports.switched({ vlan: 100 }));
    const second = await ports.add("b", ports.switched({ vlan: 100 }));
    await ports.add("c", ports.switched({ vlan: 200 }));
    const plain = await ports.add("d", ports.switched({}));
    const addresses = ["10.1.2.2", "10.1.2.3", "10.1.2.4", "10.1.2.5"];
    const ofVlan = ["10.1.2.2", "10.1.2.3"];
    assertEquals(findReached(first, addresses), ofVlan);
    assertEquals(findReached(second, addresses), ofVlan);
    assertEquals(findReached(plain, addresses), ["10.1.2.5"]);
  },
  "a trunk has tagged VLANs, and the native one untagged": async () => {
    using ports = new Ports();
    const vlanTrunk = [{ id: 100 }, { minID: 200, maxID: 201 }];
    const trunk = await ports.add("trunk", ports.switched({ vlanTrunk }));
    await ports.add("plain", ports.switched({}));
    for (const vlan of [100, 201, 300]) {
      runLine(
        trunk,
        `ip link add link eth0 name vlan${vlan} type vlan id ${vlan}`,
      );
      runLine(trunk, `ip addr add 10.1.${vlan % 256}.1/24 dev vlan${vlan}`);
      runLine(trunk, `ip link set vlan${vlan} up`);
      const access = await ports.add(`${vlan}`, switchConfig({ vlan }));
      runLine(access, `ip addr add 10.1.${vlan % 256}.2/24 dev eth0`);
    }
    assertEquals(
      findReached(trunk, [
        "10.1.2.3",
        "10.1.100.2",
        "10.1.201.2",
        "10.1.44.2",
      ]),
      ["10.1.2.3", "10.1.100.2", "10.1.201.2"],
    );
  },
  "a VLAN has one gateway, which outlives its containers": async () => {
    using ports = new Ports();
    const first = await ports.add("a", ports.routed(100));
    const second = await ports.add("b", ports.routed(100));
    const other = await ports.add("c", ports.routed(200));
    const own = ["10.1.100.1", "2001:db8:100::1"];
    assertEquals(findReached(first, own), own);
    const names = linkNames(ports.host).filter((name) => /^br0/.test(name));
    assertEquals(names.sort(), ["br0", "br0.100", "br0.200"]);
    await ports.run("DEL", ports.routed(100), "a", first);
    const reached = ["10.1.200.1", "2001:db8:200::1"];
    assertEquals(findReached(second, own), own);
    assertEquals(findReached(other, reached), reached);
  },
  "CHECK of a gateway that left its VLAN": async () => {
    using ports = new Ports();
    const { host } = ports;
    const sandbox = ports.hosts.addNetns();
    const config = ports.routed(100);
    const prevResult = await ports.run("ADD", config, "a", sandbox);
    const withResult = { ...config, prevResult };
    const options = { containerId: "a", sandbox };
    const [gateway] = ipJson(host, "link", "show", "br0.100");
    for (
      const [change, text] of [
        ["del vid 100", `"${gateway.link}" lacks VLAN 100`],
        ["add vid 100 pvid untagged"],
        ["add vid 7", `"${gateway.link}" is also in VLAN 7`],
      ] as const
    ) {
      changePortVlans(host, gateway.link, change);
      const checked = await ports.hosts.run(
        "bridge",
        "CHECK",
        withResult,
        options,
      );
      if (text === undefined) assertSuccess(checked);
      else assertFailure(checked, 999, text);
    }
    // The next ADD repairs it for all attachments.
    await ports.add("b", config);
    await ports.run("CHECK", withResult, "a", sandbox);
  },
  "a gateway that an operator has made is used as it is": async () => {
    using ports = new Ports();
    const { host } = ports;
    for (
      const line of [
        `ip ${WITH_DEFAULT(1)}`,
        "bridge vlan add dev br0 vid 100 self",
        "ip link add link br0 name br0.100 type vlan id 100",
      ]
    ) runLine(host, line);
    const sandbox = await ports.add("a", ports.routed(100));
    const own = ["10.1.100.1", "2001:db8:100::1"];
    assertEquals(findReached(sandbox, own), own);
    assertEquals(linkNames(host).length, 4);
    await ports.run("DEL", ports.routed(100), "a", sandbox);
    assertEquals(portVlans(host, "br0"), [NATIVE, "100"]);
  },
  "ADD that fails leaves a VLAN as it was": async () => {
    using ports = new Ports();
    await ports.add("a", ports.routed(100));
    const before = stockOf(ports.hosts);
    const config = { ...ports.routed(200), vlan: 100 };
    const added = await ports.hosts.run("bridge", "ADD", config);
    assertFailure(added, 7, '"br0.100" already has an IP address different');
    assertEquals(stockOf(ports.hosts), before);
    assertEquals(ports.hosts.leases("net200"), []);
  },
  "GC removes stale ports, and leaves the others in their VLANs": async () => {
    using ports = new Ports();
    const config = { ...ports.routed(100), vlanTrunk: TRUNK };
    await ports.add("stale", config);
    const stale = linkNames(ports.host);
    const sandbox = ports.hosts.addNetns();
    const prevResult = await ports.run("ADD", config, "valid", sandbox);
    const port = prevResult.interfaces[1].name;
    const valid = [{ containerID: "valid", ifname: "eth0" }];
    await ports.run(
      "GC",
      { ...config, "cni.dev/valid-attachments": valid },
      "",
    );
    const names = linkNames(ports.host);
    const isGone = stale.filter((name) => !names.includes(name));
    assertEquals(isGone.length, 1, `${stale}; ${names}`);
    assertEquals(portVlans(ports.host, port), [ACCESS, ...TAGGED]);
    await ports.run("CHECK", { ...config, prevResult }, "valid", sandbox);
    assert(names.includes("br0.100"));
  },
};

/** Makes rows of a table. */
function rowsOf<Item>(
  prefix: string,
  items: Readonly<Record<string, Item>>,
  rowOf: (item: Item) => Row,
): Record<string, Row> {
  return Object.fromEntries(
    Object.entries(items).map((
      [name, item],
    ) => [`${prefix} ${name}`, rowOf(item)]),
  );
}

for (
  const rows of [
    rowsOf("VLAN port on a new bridge:", PORTS, (port) => asPort(port)),
    rowsOf(
      "VLAN port on a bridge without filtering:",
      PORTS,
      (port) => asPort(port, WITHOUT_FILTERING),
    ),
    rowsOf(
      "VLAN port on an operator's bridge:",
      PORTS_ELSEWHERE,
      ([keys, want, bridge]) => asPort([keys, want], bridge),
    ),
    rowsOf("CHECK of a VLAN port", CHANGES, (change) => asChanged(...change)),
    rowsOf("VLANs:", ONCE, (row) => row),
  ]
) {
  conformance("bridge", rows, allOf(needsBridgeVlans, needsRoot));
}
