import { assert, assertEquals, assertThrows } from "@std/assert";
import { NetlinkError } from "../../ffi/netlink/error.ts";
import type { NetlinkSocket } from "../../ffi/netlink/socket.ts";
import type { PortVlans } from "../../ffi/rtnl/bridge_vlan.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import { FakeBridgeVlans } from "./testing/fake_vlans.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import {
  ensureVlanGateway,
  listVlanDifferences,
  planPortVlans,
  setPortVlans,
  type WantedVlans,
} from "./port_vlans.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const PORT = { index: 7, name: "veth7" };

/** The host's namespace; only its socket is used. */
function rtnlOf({ socket }: FakeBridgeVlans): Rtnl {
  return { socket, netns: { path: "/run/netns/host" } } as Rtnl;
}

/** Lists the VLANs of a range, such as `200`. */
function range(first: number, last: number): string[] {
  return Array.from({ length: last - first + 1 }, (_, at) => `${first + at}`);
}

const NOTHING: WantedVlans = {
  vlan: undefined,
  trunk: [],
  preservesDefaultVlan: false,
};
const DEFAULT = "1 pvid untagged";
const TRUNK = [{ first: 101, last: 101 }, { first: 200, last: 210 }];
const TAGGED = ["101", ...range(200, 210)];

const ROWS: [string, Partial<WantedVlans>, string[], string[]?][] = [
  ["BR-5 an access port", { vlan: 100 }, ["100 pvid untagged"]],
  ["BR-6 a trunk and its native VLAN", { trunk: TRUNK }, [DEFAULT, ...TAGGED]],
  ["BR-7 both", { vlan: 100, trunk: TRUNK }, ["100 pvid untagged", ...TAGGED]],
  [
    "BR-8 the default VLAN preserved",
    { vlan: 100, preservesDefaultVlan: true },
    ["1 untagged", "100 pvid untagged"],
  ],
  ["a trunk, the default VLAN preserved", {
    trunk: TRUNK,
    preservesDefaultVlan: true,
  }, [DEFAULT, ...TAGGED]],
  ["another default VLAN", { vlan: 100 }, ["100 pvid untagged"], [
    "5 pvid untagged",
  ]],
  ["a trunk beside another default VLAN", { trunk: TRUNK }, [
    DEFAULT,
    ...TAGGED,
  ], ["5 pvid untagged"]],
  [
    "a trunk, another default VLAN preserved",
    { trunk: TRUNK, preservesDefaultVlan: true },
    ["5 pvid untagged", ...TAGGED],
    ["5 pvid untagged"],
  ],
  ["a trunk, no default VLAN", { trunk: TRUNK }, [DEFAULT, ...TAGGED], []],
  [
    "a trunk, no default VLAN to preserve",
    { trunk: TRUNK, preservesDefaultVlan: true },
    [DEFAULT, ...TAGGED],
    [],
  ],
  ["the default VLAN as access port", { vlan: 1 }, [DEFAULT]],
  ["an access port's VLAN also in the trunk", { vlan: 205, trunk: TRUNK }, [
    "101",
    ...range(200, 204),
    "205 pvid untagged",
    ...range(206, 210),
  ]],
  ["the native VLAN also in the trunk", { trunk: [{ first: 1, last: 3 }] }, [
    DEFAULT,
    "2",
    "3",
  ]],
];

Deno.test("setPortVlans() sets the requested VLANs on a port", async (t) => {
  await eachRow(t, ROWS, ([, wanted, want, present = [DEFAULT]]) => {
    const port = new FakeBridgeVlans(present);
    const whole = { ...NOTHING, ...wanted };
    setPortVlans(rtnlOf(port), PORT, whole);
    assertEquals(port.list(PORT.index), want);
    assertEquals(listVlanDifferences(rtnlOf(port), PORT, whole), []);
    const before = port.changes.length;
    setPortVlans(rtnlOf(port), PORT, whole);
    assertEquals(port.changes.length, before, "it did so again");
  });
});

Deno.test("planPortVlans() sends a range in one request", () => {
  const present: PortVlans[] = [{
    first: 1,
    last: 1,
    isPvid: true,
    isUntagged: true,
  }];
  const wanted = { ...NOTHING, vlan: 100, trunk: TRUNK };
  assertEquals(planPortVlans(present, wanted), {
    remove: present,
    add: [{ first: 100, last: 100, isPvid: true, isUntagged: true }, ...TRUNK],
  });
});

Deno.test("listVlanDifferences() names missing and extra VLANs", async (t) => {
  const access = "100 pvid untagged";
  const rows: [string, Partial<WantedVlans>, string[], string][] = [
    ["no VLAN", { vlan: 100 }, [], '"veth7" lacks VLAN 100'],
    ["tagged", { vlan: 100 }, ["100"], '"veth7" lacks VLAN 100'],
    ["no PVID", { vlan: 100 }, ["100 untagged"], '"veth7" lacks VLAN 100'],
    [
      "one more",
      { vlan: 100 },
      [DEFAULT.replace("pvid ", ""), access],
      '"veth7" is also in VLAN 1',
    ],
    ["a gap in the trunk", { vlan: 100, trunk: TRUNK }, [
      access,
      ...TAGGED.filter((id) => id !== "205"),
    ], '"veth7" lacks VLAN 200-210'],
    ["an untagged one in the trunk", { vlan: 100, trunk: TRUNK }, [
      access,
      ...TAGGED.filter((id) => id !== "205"),
      "205 untagged",
    ], '"veth7" lacks VLAN 200-210'],
  ];
  await eachRow(t, rows, ([, wanted, present, want]) => {
    const rtnl = rtnlOf(new FakeBridgeVlans(present));
    assertEquals(
      listVlanDifferences(rtnl, PORT, { ...NOTHING, ...wanted })
        .map(({ msg }) => msg),
      [want],
    );
  });
});

Deno.test("listVlanDifferences() names all VLANs that differ", () => {
  const present = ["1", "7", "8 untagged", "100"];
  const wanted = { ...NOTHING, vlan: 100, trunk: TRUNK };
  assertEquals(
    listVlanDifferences(rtnlOf(new FakeBridgeVlans(present)), PORT, wanted)
      .map(({ msg }) => msg),
    [
      '"veth7" lacks VLAN 100',
      '"veth7" lacks VLAN 101',
      '"veth7" lacks VLAN 200-210',
      '"veth7" is also in VLAN 1',
      '"veth7" is also in VLAN 7-8',
    ],
  );
});

Deno.test("setPortVlans() names the port if the kernel refuses", () => {
  const rtnl = rtnlOf(new FakeBridgeVlans());
  const request = ({ name }: { name: string }): void => {
    throw new NetlinkError(name, 1);
  };
  const socket = { ...rtnl.socket, request } as unknown as NetlinkSocket;
  const error = assertThrows(
    () => setPortVlans({ socket } as Rtnl, PORT, { ...NOTHING, vlan: 100 }),
    Error,
  );
  assertEquals(error.message, 'Cannot set the VLANs of "veth7"');
});

/** Fixture for the gateway of a VLAN. */
class GatewayFixture implements Disposable {
  readonly hosts = TestHosts.create();
  readonly #rtnl = Rtnl.open(this.hosts.host.path);
  readonly bridge = this.#rtnl.link.addBridge({ name: "br0", mtu: 1400 });
  readonly vlans = new FakeBridgeVlans();

  /** Creates the gateway, with the kernel's links and fake VLANs. */
  ensure(): ReturnType<typeof ensureVlanGateway> {
    const { link, netns } = this.#rtnl;
    const host = { link, netns, socket: this.vlans.socket } as Rtnl;
    const wanted = { bridge: "br0", preservesDefaultVlan: false };
    return ensureVlanGateway(host, this.bridge, wanted, 100);
  }

  // deno-lint-ignore no-explicit-any -- tests access its keys freely
  links(): any[] {
    return ipJson(this.hosts.host, "link").slice(2);
  }

  [Symbol.dispose](): void {
    this.#rtnl[Symbol.dispose]();
    this.hosts[Symbol.dispose]();
  }
}

rootTest("ensureVlanGateway() connects the host to a VLAN once", () => {
  using fixture = new GatewayFixture();
  const { name, mac } = fixture.ensure();
  const links = fixture.links();
  const [gateway, port] = links[0].ifname === "br0.100"
    ? links
    : links.reverse();
  assertEquals([name, `${mac}`], [gateway.ifname, gateway.address]);
  assertEquals([gateway.mtu, port.mtu, port.master], [1400, 1400, "br0"]);
  for (const link of [gateway, port]) {
    assert(link.flags.includes("UP"), link.ifname);
  }
  assertEquals(gateway.link, port.ifname);
  assertEquals(fixture.vlans.list(port.ifindex), ["100 pvid untagged"]);
  const { changes: { length } } = fixture.vlans;
  fixture.ensure();
  assertEquals(fixture.links().length, 2);
  assertEquals(fixture.vlans.changes.length, length);
});

rootTest("ensureVlanGateway() completes a partial VLAN interface", () => {
  using fixture = new GatewayFixture();
  const { host } = fixture.hosts;
  const ip = (line: string): string => runIn(host, "ip", ...line.split(" "));
  ip("link add br0.100 type veth peer name veth0a1b2c3d");
  ip("link set veth0a1b2c3d up master br0");
  fixture.ensure();
  const { ifindex } = ipJson(host, "link", "show", "veth0a1b2c3d")[0];
  assertEquals(fixture.vlans.list(ifindex), ["100 pvid untagged"]);
  assert(ipJson(host, "link", "show", "br0.100")[0].flags.includes("UP"));
  assertEquals(fixture.links().length, 2);
});

rootTest("ensureVlanGateway() keeps an operator's VLAN interface", () => {
  using fixture = new GatewayFixture();
  const { host } = fixture.hosts;
  runIn(host, "ip", "link", "add", "br0.100", "type", "bridge");
  assertEquals(fixture.ensure().kind, "bridge");
  assertEquals(fixture.vlans.changes, []);
  assert(ipJson(host, "link", "show", "br0.100")[0].flags.includes("UP"));
});
