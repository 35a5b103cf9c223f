import {
  assert,
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertStringIncludes,
} from "@std/assert";
import type { NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import {
  detachByWhatIsLeft,
  testAttaching,
} from "../../tests/_harness/attachment_cases.ts";
import {
  bridgeConfig,
  occupy,
  switchConfig,
} from "./testing/bridge_network.ts";
import {
  assertFailure,
  assertSuccess,
} from "../../tests/_harness/call_outcome.ts";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { writeFakeIpam } from "../../tests/_harness/fake_ipam.ts";
import {
  findReached,
  ipJson,
  linkNames,
  runIn,
  snapshot,
  stockOf,
} from "../../testing/ip_json.ts";
import { connectOutside, OUTSIDE } from "../../tests/_harness/outside.ts";
import { type Keys, PluginScene } from "../../tests/_harness/plugin_scene.ts";
import { needsInetRules, rulesOf } from "../../tests/_harness/rules.ts";
import {
  type CallOptions,
  type CallOutput,
  TestHosts,
} from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";

testAttaching("bridge", bridgeConfig, []);

/** Registers a test that needs namespaces. */
function test(
  name: string,
  fn: (t: Deno.TestContext) => Promise<void>,
): void {
  rootTest(name, fn);
}

/** Runs a command that must succeed. */
async function run(
  hosts: TestHosts,
  command: string,
  config: unknown,
  options: CallOptions = {},
): Promise<CallOutput> {
  const output = await hosts.run("bridge", command, config, options);
  assertSuccess(output);
  return output;
}

/** Builds a configuration with the addresses of a fake IPAM result. */
function withFakeIpam(
  hosts: TestHosts,
  result: unknown,
  extras: Keys = {},
): Keys {
  const { type } = writeFakeIpam(hosts.path, { ADD: { stdout: result } });
  return bridgeConfig(hosts, { ipam: { type }, ...extras });
}

/** Marks of rules that belong to a container. */
const OF_CONTAINERS = /test-container|CNI-|cni-br/;

// deno-lint-ignore no-explicit-any -- as iproute2 prints it
function show(netns: NetNs, name: string): any {
  return ipJson(netns, "address", "show", "dev", name)[0];
}

test("bridge.add() connects containers, the host and the outside immediately", async () => {
  using hosts = TestHosts.create();
  const outside = connectOutside(hosts);
  for (
    const [family, subnet, via] of [["-4", "10.1.2.0/24", "192.0.2.1"], [
      "-6",
      "2001:db8:1::/64",
      "2001:db8:ff::1",
    ]] as const
  ) {
    runIn(outside, "ip", family, "route", "add", subnet, "via", via);
  }
  const config = bridgeConfig(hosts);
  const other = hosts.addNetns();
  await run(hosts, "ADD", config);
  await run(hosts, "ADD", config, { sandbox: other, containerId: "other" });
  // IPv6 first: if anything was slow, it would be IPv6.
  const [left, right] = [["2001:db8:1::2", "10.1.2.2"], [
    "2001:db8:1::3",
    "10.1.2.3",
  ]] as const;
  assertEquals(findReached(outside, [...left, ...right]), [...left, ...right]);
  assertEquals(findReached(hosts.sandbox, [...right, ...OUTSIDE]), [
    ...right,
    ...OUTSIDE,
  ]);
  assertEquals(findReached(other, [...left, ...OUTSIDE]), [
    ...left,
    ...OUTSIDE,
  ]);
  assertEquals(findReached(hosts.host, [...left, ...right]), [
    ...left,
    ...right,
  ]);
});

test("bridge.add() returns the links and addresses that the kernel has", async () => {
  using hosts = TestHosts.create();
  const { host, sandbox } = hosts;
  const { json } = await run(hosts, "ADD", bridgeConfig(hosts, { mtu: 1400 }));
  const [bridge, hostEnd, containerEnd, ...others] = json.interfaces;
  assertEquals(others, []);
  assertEquals(bridge, { name: "br0", mac: show(host, "br0").address });
  assertMatch(hostEnd.name, /^veth[0-9a-f]{11}$/);
  assertEquals(hostEnd, {
    name: hostEnd.name,
    mac: show(host, hostEnd.name).address,
  });
  assertEquals(containerEnd, {
    name: "eth0",
    mac: show(sandbox, "eth0").address,
    sandbox: sandbox.path,
  });
  assertEquals(json.ips, [
    { interface: 2, address: "10.1.2.2/24", gateway: "10.1.2.1" },
    { interface: 2, address: "2001:db8:1::2/64", gateway: "2001:db8:1::1" },
  ]);
  assertEquals(json.routes, [
    { dst: "0.0.0.0/0", gw: "10.1.2.1" },
    { dst: "::/0", gw: "2001:db8:1::1" },
  ]);
  for (
    const [netns, name] of [[host, "br0"], [host, hostEnd.name], [
      sandbox,
      "eth0",
    ]]
  ) {
    assertEquals(show(netns, name).mtu, 1400, name);
  }
  assertEquals(show(host, hostEnd.name).master, "br0");
  assertEquals(
    show(host, hostEnd.name).ifalias,
    "cni/net1/test-container/eth0",
  );
});

test("bridge.add() does not wait for duplicate address detection", async () => {
  using hosts = TestHosts.create();
  const start = performance.now();
  await run(hosts, "ADD", bridgeConfig(hosts));
  assert(performance.now() - start < 900, "it took as long as detection does");
  for (
    const [netns, name] of [[hosts.host, "br0"], [
      hosts.sandbox,
      "eth0",
    ]] as const
  ) {
    const flags = show(netns, name).addr_info
      .filter(({ family, scope }: Keys) =>
        family === "inet6" && scope === "global"
      )
      .map(({ tentative, nodad }: Keys) => [tentative, nodad]);
    assertEquals(flags, [[undefined, true]], name);
    // The kernel adds the link-local address, and settles it in a work queue.
    await eventually(
      `the addresses of ${name} are settled`,
      () => {
        for (const { tentative } of show(netns, name).addr_info) {
          if (tentative) return false;
        }
        return true;
      },
    );
  }
});

test("bridge.add() detects duplicate addresses with enabledad", async (t) => {
  using hosts = TestHosts.create();
  const ips = [{ address: "2001:db8:1::9/64" }];
  const config = withFakeIpam(hosts, { ips }, {
    enabledad: true,
    hairpinMode: true,
  });
  await t.step("returns after the addresses are usable", async () => {
    await run(hosts, "ADD", config);
    const address = show(hosts.sandbox, "eth0").addr_info
      .find(({ scope }: { scope: string }) => scope === "global");
    assertEquals([address.nodad, address.tentative, address.dadfailed], [
      undefined,
      undefined,
      undefined,
    ]);
    const sysctl = (key: string): string =>
      runIn(hosts.sandbox, "sysctl", "-n", `net.ipv6.conf.eth0.${key}`).trim();
    assertEquals([sysctl("accept_dad"), sysctl("enhanced_dad")], ["1", "1"]);
    assertEquals(findReached(hosts.sandbox, ["2001:db8:1::1"]), [
      "2001:db8:1::1",
    ]);
  });
  await t.step("fails for an address that another host uses", async () => {
    const sandbox = hosts.addNetns();
    const before = [snapshot(hosts.host), snapshot(sandbox)];
    const options = { sandbox, containerId: "second" };
    const added = await hosts.run("bridge", "ADD", config, options);
    assertFailure(
      added,
      999,
      'Cannot add address 2001:db8:1::9/64 to "eth0": another host has it',
    );
    assertEquals([snapshot(hosts.host), snapshot(sandbox)], before);
  });
});

test("bridge.add() announces its addresses to neighbours that cached other MACs", async () => {
  using hosts = TestHosts.create();
  const neighbours = [[hosts.host, "br0"], [
    await occupy(hosts),
    "eth0",
  ]] as const;
  const addresses = ["10.1.2.2", "2001:db8:1::2"];
  for (const [netns, device] of neighbours) {
    for (const address of addresses) {
      const script =
        `ip neigh replace ${address} lladdr 02:00:00:00:00:99 dev ${device} nud stale`;
      runIn(netns, "sh", "-ec", script);
    }
  }
  const { json } = await run(hosts, "ADD", bridgeConfig(hosts));
  assertEquals(json.ips[0].address, "10.1.2.2/24");
  const known = (): string[] =>
    neighbours.flatMap(([netns]) =>
      addresses.map((address) =>
        ipJson(netns, "neigh", "show", address)[0]?.lladdr
      )
    );
  const { mac } = json.interfaces[2];
  const want = [mac, mac, mac, mac];
  const deadline = Date.now() + 1_000;
  while (Date.now() < deadline && `${known()}` !== `${want}`);
  assertEquals(known(), want);
});

test("bridge without ipam connects containers on layer 2 only", async (t) => {
  await eachRow(t, [undefined, {}, { type: "" }], async (ipam) => {
    using hosts = TestHosts.create();
    const config = switchConfig({ ipam, isDefaultGateway: true, ipMasq: true });
    const other = hosts.addNetns();
    const added = await run(hosts, "ADD", config);
    await run(hosts, "ADD", config, { sandbox: other, containerId: "other" });
    assertEquals([added.json.ips, added.json.routes], [undefined, undefined]);
    assertEquals(added.json.interfaces.length, 3);
    assertEquals(
      show(hosts.host, "br0").addr_info.filter((
        { family }: { family: string },
      ) => family === "inet"),
      [],
    );
    runIn(hosts.sandbox, "ip", "addr", "add", "10.5.0.1/24", "dev", "eth0");
    runIn(other, "ip", "addr", "add", "10.5.0.2/24", "dev", "eth0");
    assertEquals(findReached(hosts.sandbox, ["10.5.0.2"]), ["10.5.0.2"]);
    const withResult = { ...config, prevResult: added.json };
    for (const command of ["STATUS", "CHECK", "DEL", "DEL"]) {
      await run(hosts, command, withResult);
    }
    assertEquals(linkNames(hosts.sandbox), ["lo"]);
  }, (ipam) => `ipam: ${JSON.stringify(ipam)}`);
});

test("bridge.add() leaves the interface down with disableContainerInterface", async () => {
  using hosts = TestHosts.create();
  const config = switchConfig({ disableContainerInterface: true });
  const { json } = await run(hosts, "ADD", config);
  const { flags, address } = show(hosts.sandbox, "eth0");
  assert(!flags.includes("UP"), `${flags}`);
  assertEquals(json.interfaces[2].mac, address);
  await run(hosts, "CHECK", { ...config, prevResult: json });
  await run(hosts, "DEL", config);
});

test("bridge.add() sets hairpin mode", async () => {
  using hosts = TestHosts.create();
  const { json } = await run(
    hosts,
    "ADD",
    bridgeConfig(hosts, { hairpinMode: true }),
  );
  const { linkinfo } = show(hosts.host, json.interfaces[1].name);
  assertEquals([
    linkinfo.info_slave_data.hairpin,
    linkinfo.info_slave_data.isolated,
  ], [true, false]);
});

test("bridge.add() isolates ports from each other, but not from the gateway", async () => {
  using hosts = TestHosts.create();
  const config = bridgeConfig(hosts, { portIsolation: true });
  const other = hosts.addNetns();
  await run(hosts, "ADD", config);
  await run(hosts, "ADD", config, { sandbox: other, containerId: "other" });
  const open = hosts.addNetns();
  await run(hosts, "ADD", bridgeConfig(hosts), {
    sandbox: open,
    containerId: "open",
  });
  runIn(hosts.host, "sysctl", "-qw", "net.ipv4.ip_forward=0");
  assertEquals(
    findReached(hosts.sandbox, ["10.1.2.1", "10.1.2.3", "10.1.2.4"]),
    ["10.1.2.1", "10.1.2.4"],
  );
});

test("bridge.add() with macspoofchk drops frames from a different MAC address", async () => {
  using hosts = TestHosts.create();
  const config = bridgeConfig(hosts, { macspoofchk: true });
  const { json } = await run(hosts, "ADD", config);
  assertEquals(findReached(hosts.sandbox, ["10.1.2.1"]), ["10.1.2.1"]);
  const setMac = (mac: string): string =>
    runIn(hosts.sandbox, "ip", "link", "set", "eth0", "address", mac);
  setMac("02:00:00:00:00:01");
  assertEquals(findReached(hosts.sandbox, ["10.1.2.1"]), []);
  setMac(json.interfaces[2].mac);
  assertEquals(findReached(hosts.sandbox, ["10.1.2.1"]), ["10.1.2.1"]);
  const withResult = { ...config, prevResult: json };
  await run(hosts, "STATUS", config);
  await run(hosts, "CHECK", withResult);
  await run(hosts, "DEL", { ...withResult }, { env: { CNI_NETNS: "" } });
  const chains = runIn(hosts.host, "nft", "list", "chains", "bridge");
  assert(!chains.includes("cni-br-iface"), chains);
});

test("bridge.add() sets the requested MAC address", async () => {
  using hosts = TestHosts.create();
  const mac = "c2:11:22:33:44:55";
  const config = bridgeConfig(hosts, { runtimeConfig: { mac } });
  const { json } = await run(hosts, "ADD", config);
  assertEquals([json.interfaces[2].mac, show(hosts.sandbox, "eth0").address], [
    mac,
    mac,
  ]);
});

test("bridge.add() changes nothing if it refuses the input", async (t) => {
  const rows: [extras: Keys, code: number, text: string][] = [
    [
      { hairpinMode: true, promiscMode: true },
      7,
      "cannot set hairpin mode and promiscuous mode at the same time",
    ],
    [{ runtimeConfig: { mac: "zz" } }, 7, 'Cannot use MAC "zz"'],
    [{ bridge: "sixteen-letters-" }, 7, 'Cannot use "sixteen-letters-"'],
    [{ bridge: "lo" }, 7, '"lo" already exists but is not a bridge'],
    [{ ipMasq: true, ipMasqBackend: "pf" }, 7, "ipMasqBackend"],
  ];
  await eachRow(t, rows, async ([extras, code, text]) => {
    using hosts = TestHosts.create();
    const before = stockOf(hosts);
    const config = bridgeConfig(hosts, extras);
    assertFailure(await hosts.run("bridge", "ADD", config), code, text);
    assertEquals(stockOf(hosts), before);
    assertEquals(hosts.leases(), []);
    // DEL must succeed all the same.
    const deleted = await hosts.run("bridge", "DEL", config);
    assertEquals(deleted.exitCode, 0, deleted.stdout);
  }, ([extras]) => JSON.stringify(extras));
  await t.step("an unknown key in CNI_ARGS", async () => {
    using hosts = TestHosts.create();
    const options = { env: { CNI_ARGS: "NOPE=1" } };
    const config = bridgeConfig(hosts);
    assertFailure(
      await hosts.run("bridge", "ADD", config, options),
      4,
      "unknown args",
    );
    await run(hosts, "DEL", config, options);
  });
});

test("bridge.add() undoes everything if the bridge has a different address", async () => {
  using hosts = TestHosts.create();
  const config = bridgeConfig(hosts, { macspoofchk: true, ipMasq: true });
  await occupy(hosts);
  const before = stockOf(hosts);
  const other = { ...config, ipam: hosts.hostLocal("10.9.0.0/24") };
  const added = await hosts.run("bridge", "ADD", other);
  const text = '"br0" already has an IP address different from 10.9.0.1/24';
  assertFailure(added, 7, text);
  assertEquals(stockOf(hosts), before);
  assertEquals([hosts.leases(), rulesOf(hosts.host, OF_CONTAINERS)], [[], []]);
  const forced = await run(hosts, "ADD", { ...other, forceAddress: true });
  const addresses = show(hosts.host, "br0").addr_info
    .filter(({ family }: { family: string }) => family === "inet")
    .map(({ local }: { local: string }) => local);
  assertEquals(addresses, ["10.9.0.1"]);
  assertEquals(findReached(hosts.sandbox, ["10.9.0.1"]), ["10.9.0.1"]);
  await run(hosts, "CHECK", { ...other, prevResult: forced.json });
});

test("bridge.add() connects containers with unusual addresses and gateways", async (t) => {
  const rows: [name: string, ips: unknown[], pings: string[]][] = [
    ["two subnets of each family", [
      { address: "10.0.0.2/24" },
      { address: "10.0.1.2/24" },
      { address: "fd00::2/64" },
      { address: "fd01::2/64" },
    ], ["10.0.0.1", "10.0.1.1", "fd00::1", "fd01::1"]],
    ["two addresses that share a gateway", [
      { address: "10.0.0.2/24", gateway: "10.0.0.1" },
      { address: "10.0.0.3/24", gateway: "10.0.0.1" },
    ], ["10.0.0.1"]],
    ["a /31, as RFC 3021 has it", [{ address: "10.0.0.3/31" }], ["10.0.0.2"]],
    ["a /127, as RFC 6164 has it", [{ address: "fd00::3/127" }], ["fd00::2"]],
    ["a gateway at the subnet's end", [{
      address: "10.0.0.2/24",
      gateway: "10.0.0.254",
    }], ["10.0.0.254"]],
  ];
  await eachRow(t, rows, async ([, ips, gateways]) => {
    using hosts = TestHosts.create();
    const config = withFakeIpam(hosts, { ips });
    const { json } = await run(hosts, "ADD", config);
    assertEquals(findReached(hosts.sandbox, gateways), gateways);
    const own = json.ips.map(({ address }: { address: string }) =>
      address.replace(/\/.*/, "")
    );
    assertEquals(findReached(hosts.host, own), own);
    await run(hosts, "CHECK", { ...config, prevResult: json });
    await run(hosts, "DEL", config);
    assertEquals(linkNames(hosts.sandbox), ["lo"]);
  });
});

test("bridge.add() changes nothing on an existing bridge except its port", async () => {
  using hosts = TestHosts.create();
  const { host } = hosts;
  const ip = (line: string): string => runIn(host, "ip", ...line.split(" "));
  // A bridge as operators create it: with the MAC of its port.
  ip("link add br0 type bridge");
  ip("link add uplink address c2:ff:ff:ff:ff:ff type veth peer name switch");
  ip("link set uplink up master br0");
  ip("link set br0 up mtu 1300");
  const before = show(host, "br0");
  for (const [position, containerId] of [..."abcdef"].entries()) {
    const mac = `02:00:00:00:00:0${position}`;
    const config = switchConfig({ runtimeConfig: { mac } });
    const { json } = await run(hosts, "ADD", config, {
      sandbox: hosts.addNetns(),
      containerId,
    });
    const { address, ifindex, mtu } = show(host, "br0");
    assertEquals([address, ifindex, mtu], [
      before.address,
      before.ifindex,
      1300,
    ]);
    assertEquals(json.interfaces[0].mac, before.address);
  }
});

test("bridge.add() succeeds for concurrent calls that create the bridge", async () => {
  using hosts = TestHosts.create();
  const config = bridgeConfig(hosts, { ipMasq: true, macspoofchk: true });
  const calls = [1, 2, 3, 4, 5, 6].map(async (at) => {
    const options = { sandbox: hosts.addNetns(), containerId: `c${at}` };
    const { json } = await run(hosts, "ADD", config, options);
    await run(hosts, "CHECK", { ...config, prevResult: json }, options);
    assertEquals(
      findReached(options.sandbox, ["10.1.2.1", "2001:db8:1::1"]).length,
      2,
    );
    await run(hosts, "DEL", { ...config, prevResult: json }, options);
  });
  await Promise.all(calls);
  assertEquals(linkNames(hosts.host), ["lo", "br0"]);
  assertEquals(hosts.leases(), []);
});

test("bridge.add() replaces the host end of a container that was never deleted", async () => {
  using hosts = TestHosts.create();
  const config = bridgeConfig(hosts, { macspoofchk: true, ipMasq: true });
  const first = await run(hosts, "ADD", config);
  await Deno.remove(`${hosts.directory}/leases`, { recursive: true });
  const sandbox = hosts.addNetns();
  const again = await run(hosts, "ADD", config, { sandbox });
  assertEquals(again.json.interfaces[1].name, first.json.interfaces[1].name);
  assertNotEquals(again.json.interfaces[2].mac, first.json.interfaces[2].mac);
  assertEquals(findReached(sandbox, ["10.1.2.1"]), ["10.1.2.1"]);
  assertEquals(linkNames(hosts.sandbox), ["lo"]);
  await run(hosts, "CHECK", { ...config, prevResult: again.json }, { sandbox });
});

/** A host with the bridge, and a container whose own state is ignored. */
class RulesScene extends PluginScene {
  /** Includes only rules that belong to a container. */
  override get state(): unknown {
    return [super.state, rulesOf(this.hosts.host, OF_CONTAINERS)];
  }
}

test("bridge.del() removes everything even if parts of the input are missing", async (t) => {
  const backends = [["nftables", needsInetRules], ["iptables"]] as const;
  for (const [ipMasqBackend, { ignore, suffix } = allOf()] of backends) {
    const extras = { ipMasq: true, ipMasqBackend, macspoofchk: true };
    const makeScene = async (): Promise<RulesScene> => {
      const scene = new RulesScene(
        "bridge",
        (hosts) => bridgeConfig(hosts, extras),
      );
      await occupy(scene.hosts);
      return scene;
    };
    await t.step({
      name: ipMasqBackend + suffix,
      ignore,
      fn: (t) => detachByWhatIsLeft(t, makeScene),
    });
  }
});

test("bridge.del() releases the leases after a reboot", async () => {
  using hosts = TestHosts.create();
  const config = bridgeConfig(hosts, { ipMasq: true, macspoofchk: true });
  const { json } = await run(hosts, "ADD", config);
  // The leases are on disk; links and rules are not.
  runIn(hosts.host, "sh", "-ec", "ip link del br0; nft flush ruleset");
  using sandbox = Rtnl.open(hosts.sandbox.path);
  sandbox.link.ensureGone("eth0");
  await run(hosts, "DEL", { ...config, prevResult: json }, {
    env: { CNI_NETNS: "/run/netns/gone" },
  });
  assertEquals(hosts.leases(), []);
});

test("bridge.del() keeps interfaces of other attachments and programs", async (t) => {
  const withPort = (hosts: TestHosts, bridge: string): void => {
    using host = Rtnl.open(hosts.host.path);
    const masterIndex = host.link.addBridge({ name: bridge }).index;
    const peer = { netns: hosts.sandbox, name: "eth0" };
    host.link.addVeth({ name: "veth12345678", masterIndex, peer });
  };
  await t.step(
    "of another attachment, with which ADD failed",
    async () => {
      using hosts = TestHosts.create();
      const config = bridgeConfig(hosts, { ipMasq: true, macspoofchk: true });
      await run(hosts, "ADD", config);
      const before = [stockOf(hosts), rulesOf(hosts.host, OF_CONTAINERS)];
      const other = { ...config, name: "net2" };
      assertFailure(await hosts.run("bridge", "ADD", other), 4, '"eth0"');
      await run(hosts, "DEL", other);
      assertEquals(
        [stockOf(hosts), rulesOf(hosts.host, OF_CONTAINERS)],
        before,
      );
    },
  );
  await t.step("of another kind", async () => {
    using hosts = TestHosts.create();
    runIn(hosts.sandbox, "ip", "link", "add", "eth0", "type", "bridge");
    await run(hosts, "DEL", bridgeConfig(hosts));
    assertEquals(linkNames(hosts.sandbox), ["lo", "eth0"]);
  });
  await t.step("a port of a different bridge", async () => {
    using hosts = TestHosts.create();
    withPort(hosts, "br1");
    runIn(hosts.host, "ip", "link", "add", "br0", "type", "bridge");
    await run(hosts, "DEL", bridgeConfig(hosts, { cniVersion: "0.3.1" }));
    assertEquals(linkNames(hosts.sandbox), ["lo", "eth0"]);
  });
  await t.step("one without a lease, unless prevResult names it", async () => {
    using hosts = TestHosts.create();
    withPort(hosts, "br0");
    const config = bridgeConfig(hosts);
    const { exitCode, stderr } = await hosts.run("bridge", "DEL", config);
    assertEquals(exitCode, 0);
    assertStringIncludes(stderr, "Keeping an interface that might belong to");
    assertEquals(linkNames(hosts.sandbox), ["lo", "eth0"]);
    const interfaces = [
      { name: "br0" },
      { name: "veth12345678" },
      { name: "eth0", sandbox: hosts.sandbox.path },
    ];
    await run(hosts, "DEL", {
      ...config,
      prevResult: { cniVersion: "1.1.0", interfaces },
    });
    assertEquals(linkNames(hosts.sandbox), ["lo"]);
  });
  await t.step(
    "but deletes the Go plugin's link before version 0.4.0 or without ipam",
    async () => {
      for (const keys of [{ cniVersion: "0.3.1" }, { ipam: undefined }]) {
        using hosts = TestHosts.create();
        withPort(hosts, "br0");
        await run(hosts, "DEL", bridgeConfig(hosts, keys));
        assertEquals(linkNames(hosts.sandbox), ["lo"]);
      }
    },
  );
});

test("bridge.del() deletes the interface and fails if the IPAM plugin fails", async () => {
  using hosts = TestHosts.create();
  const { type } = writeFakeIpam(hosts.path, {
    ADD: { stdout: { ips: [{ address: "10.0.0.2/24" }] } },
    DEL: { stdout: { code: 117, msg: "the store is on fire" }, exitCode: 1 },
  });
  const config = bridgeConfig(hosts, { ipam: { type }, macspoofchk: true });
  await run(hosts, "ADD", config);
  assertFailure(
    await hosts.run("bridge", "DEL", config),
    117,
    "the store is on fire",
  );
  assertEquals(linkNames(hosts.sandbox), ["lo"]);
  assertEquals(rulesOf(hosts.host, OF_CONTAINERS), []);
});

test("bridge.gc() deletes the links and rules of stale attachments", async () => {
  using hosts = TestHosts.create();
  const config = bridgeConfig(hosts, { ipMasq: true, macspoofchk: true });
  const add = async (
    containerId: string,
    extras: Keys = {},
  ): Promise<NetNs> => {
    const sandbox = hosts.addNetns();
    await run(hosts, "ADD", { ...config, ...extras }, { sandbox, containerId });
    return sandbox;
  };
  const net2 = {
    name: "net2",
    bridge: "br2",
    ipam: hosts.hostLocal("10.2.0.0/24"),
  };
  const kept = await add("kept"), stale = await add("stale");
  const vanished = await add("vanished"), other = await add("other", net2);
  // Simulates a deleted namespace: its interface is gone, its rules are not.
  runIn(vanished, "ip", "link", "del", "eth0");
  const counts = (): number[] =>
    [kept, stale, other].map((netns) => linkNames(netns).length);
  await run(hosts, "GC", config);
  assertEquals(counts(), [2, 2, 2]);
  const valid = [{ containerID: "kept", ifname: "eth0" }];
  await run(hosts, "GC", { ...config, "cni.dev/valid-attachments": valid });
  assertEquals(counts(), [2, 1, 2]);
  assertEquals(hosts.leases("net1"), ["10.1.2.2", "2001:db8:1::2"]);
  assertEquals(hosts.leases("net2"), ["10.2.0.2"]);
  const rules = rulesOf(hosts.host).join("\n");
  assert(!/stale|vanished/.test(rules), rules);
  for (const id of ["kept", "other"]) {
    assertStringIncludes(rules, `id: \\"${id}\\"`);
    assertStringIncludes(rules, `macspoofchk-${id}-eth0`);
  }
});

test("bridge.status() fails for an invalid configuration or a failing IPAM plugin", async (t) => {
  using hosts = TestHosts.create();
  const { type } = writeFakeIpam(hosts.path, {
    STATUS: { stdout: { code: 50, msg: "no addresses" }, exitCode: 1 },
  });
  await t.step("nothing", async () => {
    const config = bridgeConfig(hosts, { ipMasq: true, macspoofchk: true });
    await run(hosts, "STATUS", config);
    await run(hosts, "STATUS", switchConfig());
  });
  await t.step("the IPAM plugin", async () => {
    const status = await hosts.run(
      "bridge",
      "STATUS",
      bridgeConfig(hosts, { ipam: { type } }),
    );
    assertFailure(status, 50, "no addresses");
  });
  await t.step("the configuration", async () => {
    const status = await hosts.run(
      "bridge",
      "STATUS",
      switchConfig({ vlan: -1 }),
    );
    assertFailure(status, 7, "invalid VLAN ID -1");
  });
});

test("bridge.add() checks the gateway only if the bridge becomes the gateway", async (t) => {
  const rows: [name: string, gateway: string][] = [
    ["the container itself", "10.0.0.2"],
    ["of the other family", "fd00::1"],
  ];
  for (const [name, gateway] of rows) {
    const result = { ips: [{ address: "10.0.0.2/24", gateway }] };
    await t.step(`${name}, a switch`, async () => {
      using hosts = TestHosts.create();
      const config = withFakeIpam(hosts, result, { isDefaultGateway: false });
      const { json } = await run(hosts, "ADD", config);
      assertEquals(json.ips, [{ ...result.ips[0], interface: 2 }]);
      await run(hosts, "CHECK", { ...config, prevResult: json });
      await run(hosts, "DEL", { ...config, prevResult: json });
    });
    await t.step(`${name}, a gateway`, async () => {
      using hosts = TestHosts.create();
      const before = stockOf(hosts);
      assertFailure(
        await hosts.run("bridge", "ADD", withFakeIpam(hosts, result)),
        7,
        `IPAM plugin returned unusable gateway ${gateway} for 10.0.0.2/24`,
      );
      assertEquals(stockOf(hosts), before);
    });
  }
});
