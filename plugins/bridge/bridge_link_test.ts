import {
  assert,
  assertEquals,
  assertNotEquals,
  assertThrows,
} from "@std/assert";
import { describeError } from "../../base/error.ts";
import { NetlinkError } from "../../ffi/netlink/error.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import {
  needsBridgeVlans,
  needsNoBridgeVlans,
} from "./testing/bridge_network.ts";
import { requireRoot, rootTest } from "../../testing/capabilities.ts";
import { intercept } from "../../testing/fault_injector.ts";
import { ipJson, runIn, snapshot } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { ensureBridge, type WantedBridge } from "./bridge_link.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const WANTED: WantedBridge = {
  bridge: "br0",
  mtu: undefined,
  promiscuous: false,
  vlan: undefined,
  trunk: [],
};

/** A temporary host with a socket. */
class Fixture implements Disposable {
  readonly hosts = TestHosts.create();
  readonly rtnl = Rtnl.open(this.hosts.host.path);

  ip(line: string): void {
    runIn(this.hosts.host, "ip", ...line.split(" "));
  }

  sysctl(key: string): string {
    return runIn(this.hosts.host, "sysctl", "-n", key).trim();
  }

  /** Returns the bridge as `ip` shows it. */
  // deno-lint-ignore no-explicit-any -- tests access its keys freely
  show(): any {
    return ipJson(this.hosts.host, "link", "show", "br0")[0];
  }

  [Symbol.dispose](): void {
    this.rtnl[Symbol.dispose]();
    this.hosts[Symbol.dispose]();
  }
}

function test(
  name: string,
  fn: (t: Deno.TestContext) => void | Promise<void>,
): void {
  rootTest(name, fn);
}

test("ensureBridge() creates a bridge that is up and forwards IPv6 immediately", () => {
  using fixture = new Fixture();
  const link = ensureBridge(fixture.rtnl, { ...WANTED, mtu: 1400 });
  const shown = fixture.show();
  assertEquals(shown.linkinfo.info_kind, "bridge");
  assertEquals([shown.ifindex, shown.address, shown.mtu], [
    link.index,
    `${link.mac}`,
    1400,
  ]);
  assert(shown.flags.includes("UP") && !shown.flags.includes("PROMISC"));
  assertEquals(fixture.sysctl("net.ipv6.conf.br0.accept_ra"), "0");
  // Its link-local address is usable immediately; otherwise IPv6 is not
  // forwarded to it.
  assertEquals(fixture.sysctl("net.ipv6.conf.br0.accept_dad"), "0");
});

test("ensureBridge() sets an existing bridge up, and changes nothing else", () => {
  using fixture = new Fixture();
  fixture.ip("link add br0 mtu 1300 address c2:11:22:33:44:55 type bridge");
  const { ifindex } = fixture.show();
  const link = ensureBridge(fixture.rtnl, { ...WANTED, mtu: 1400 });
  const shown = fixture.show();
  assertEquals([link.index, shown.ifindex], [ifindex, ifindex]);
  assertEquals([shown.mtu, shown.address], [1300, "c2:11:22:33:44:55"]);
  assert(shown.flags.includes("UP"), "it is still down");
  assertEquals(fixture.sysctl("net.ipv6.conf.br0.accept_ra"), "1");
});

test("ensureBridge() sets promiscuous mode, and never clears it", () => {
  using fixture = new Fixture();
  const isPromiscuous = (): boolean => fixture.show().flags.includes("PROMISC");
  ensureBridge(fixture.rtnl, WANTED);
  assertEquals(isPromiscuous(), false);
  ensureBridge(fixture.rtnl, { ...WANTED, promiscuous: true });
  assertEquals(isPromiscuous(), true);
  ensureBridge(fixture.rtnl, WANTED);
  assertEquals(isPromiscuous(), true);
});

test("ensureBridge() refuses a link that is not a bridge", () => {
  using fixture = new Fixture();
  fixture.ip("link add br0 type veth peer name br1");
  const error = assertThrows(() => ensureBridge(fixture.rtnl, WANTED));
  assertEquals(
    describeError(error),
    '"br0" already exists but is not a bridge',
  );
});

test("ensureBridge() sets a MAC address on a bridge that lost its last port", () => {
  using fixture = new Fixture();
  fixture.ip("link add br0 type bridge");
  fixture.ip("link add v0 type veth peer name v1");
  fixture.ip("link set v0 master br0");
  fixture.ip("link del v0");
  assertEquals(fixture.show().address, "00:00:00:00:00:00");
  const { mac } = ensureBridge(fixture.rtnl, WANTED);
  assertNotEquals(`${mac}`, "00:00:00:00:00:00");
  assertEquals(fixture.show().address, `${mac}`);
});

test("ensureBridge() keeps the MAC address of an existing bridge when ports are added", () => {
  using fixture = new Fixture();
  fixture.ip("link add br0 type bridge");
  const { mac } = ensureBridge(fixture.rtnl, WANTED);
  fixture.ip("link add v0 address 02:00:00:00:00:01 type veth peer name v1");
  fixture.ip("link set v0 master br0");
  assertEquals(fixture.show().address, `${mac}`);
  // Another attachment, before the first one is complete.
  assertEquals(ensureBridge(fixture.rtnl, WANTED).mac, mac);
});

test("ensureBridge() does not set a MAC address that is set already", async () => {
  const MAC = "02:00:00:00:00:09";
  const OTHER = "02:00:00:00:00:08";
  const rows: [type: string, address: string, port: string, isSet: boolean][] =
    [
      ["3", MAC, MAC, true],
      ["1", MAC, OTHER, false],
      // /sys has the links of a different namespace.
      ["3", OTHER, MAC, false],
      ["1", OTHER, OTHER, true],
    ];
  for (const [type, address, port, isSet] of rows) {
    using fixture = new Fixture();
    fixture.ip("link add br0 type bridge");
    fixture.ip("link set br0 up");
    fixture.ip(`link add v0 up address ${port} type veth peer name v1`);
    fixture.ip("link set v0 master br0");
    fixture.ip("link set v1 up");
    fixture.ip(`link set br0 address ${MAC}`);
    await eventually("a carrier", () => fixture.show().operstate === "UP");
    fixture.ip("neigh add 10.1.2.9 lladdr 02:00:00:00:00:07 dev br0");
    const sysfs = `${fixture.hosts.directory}/sys`;
    const link = `${sysfs}/class/net/br0`;
    await Deno.mkdir(link, { recursive: true });
    await Deno.writeTextFile(`${link}/addr_assign_type`, `${type}\n`);
    await Deno.writeTextFile(`${link}/address`, `${address}\n`);
    ensureBridge(fixture.rtnl, WANTED, sysfs);
    // The kernel forgets neighbours, even static ones, when a MAC is set.
    const neighbours = runIn(fixture.hosts.host, "ip", "neigh", "show");
    assertEquals(neighbours.includes("10.1.2.9"), isSet, `${type} ${port}`);
  }
});

test("a bridge created by ensureBridge() keeps its MAC address when ports change", () => {
  using fixture = new Fixture();
  const { mac } = ensureBridge(fixture.rtnl, WANTED);
  fixture.ip("link add v0 address 02:00:00:00:00:01 type veth peer name v1");
  fixture.ip("link set v0 master br0");
  assertEquals(fixture.show().address, `${mac}`);
  fixture.ip("link del v0");
  assertEquals(fixture.show().address, `${mac}`);
});

const WITH_VLANS = { ...WANTED, vlan: 100 };

/** Settings that need VLANs, and the keys in the error. */
const VLAN_KEYS: [Partial<WantedBridge>, string][] = [
  [{ vlan: 100 }, '"vlan"'],
  [{ trunk: [{ first: 2, last: 4 }] }, '"vlanTrunk"'],
  [{ vlan: 100, trunk: [{ first: 2, last: 4 }] }, '"vlan" and "vlanTrunk"'],
];

Deno.test({
  ...requireRoot("ensureBridge() blames VLANs for nothing else"),
  async fn(t): Promise<void> {
    const rows: [name: string, wanted: WantedBridge, error: NetlinkError][] = [
      ["another error", WITH_VLANS, new NetlinkError("RTM_NEWLINK", 22)],
      [
        "a kernel without bridges",
        WITH_VLANS,
        new NetlinkError("RTM_NEWLINK", 95, { extAck: "Unknown device type" }),
      ],
      ["no VLANs", WANTED, new NetlinkError("RTM_NEWLINK", 95)],
    ];
    await eachRow(t, rows, ([, wanted, refusal]) => {
      using fixture = new Fixture();
      using stack = new DisposableStack();
      stack.defer(intercept(fixture.rtnl.link, "addBridge", () => {
        throw refusal;
      }));
      const error = assertThrows(() => ensureBridge(fixture.rtnl, wanted));
      assertEquals(
        describeError(error),
        `Cannot create bridge "br0": ${refusal.message}`,
      );
    });
  },
});

Deno.test({
  ...requireRoot(
    "ensureBridge() changes nothing if the kernel does not support bridge VLANs",
    needsNoBridgeVlans,
  ),
  async fn(t): Promise<void> {
    await eachRow(
      t,
      [["no bridge", ""], ["a bridge", "link add br0 up type bridge"]] as const,
      ([, before]) => {
        using fixture = new Fixture();
        if (before !== "") fixture.ip(before);
        const state = snapshot(fixture.hosts.host);
        const index = fixture.rtnl.link.find("br0")?.index;
        const action = before === "" ? "create" : "set up";
        const object = before === "" ? '"br0"' : `link ${index}`;
        for (const [keys, named] of VLAN_KEYS) {
          const error = assertThrows(() =>
            ensureBridge(fixture.rtnl, { ...WANTED, ...keys })
          );
          assertEquals(
            describeError(error),
            `Cannot ${action} bridge "br0": ` +
              "the kernel has no VLAN filtering for bridges " +
              "(CONFIG_BRIDGE_VLAN_FILTERING), which is needed for " +
              `${named}: RTM_NEWLINK ${object}: EOPNOTSUPP`,
          );
        }
        assertEquals(snapshot(fixture.hosts.host), state);
      },
    );
  },
});

Deno.test({
  ...requireRoot(
    "ensureBridge() turns on VLAN filtering",
    needsBridgeVlans,
  ),
  async fn(t): Promise<void> {
    await eachRow(
      t,
      [["a new one", ""], [
        "one that is there",
        "link add br0 up type bridge",
      ]] as const,
      ([, before]) => {
        using fixture = new Fixture();
        if (before !== "") fixture.ip(before);
        ensureBridge(fixture.rtnl, WITH_VLANS);
        assertEquals(fixture.show().linkinfo.info_data.vlan_filtering, 1);
      },
    );
  },
});
