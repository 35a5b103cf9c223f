import { assert, assertEquals, assertThrows } from "@std/assert";
import { Mac } from "../../net/mac.ts";
import { needsUserNamespaces, rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { NetlinkError } from "../netlink/error.ts";
import { NetNs } from "../netns.ts";
import type { LinkFilter } from "./link.ts";
import { Rtnl } from "./mod.ts";
import { asModule } from "../../tests/_harness/as_module.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { startUserNamespace } from "../testing.ts";
import { needsVrf } from "../../plugins/vrf/testing.ts";

/** Returns a link as `ip` shows it. */
// deno-lint-ignore no-explicit-any -- tests look into it as they please
function show(netns: NetNs, name: string): any {
  return ipJson(netns, "link", "show", "dev", name)[0];
}

function namesOf(netns: NetNs): string[] {
  return ipJson(netns, "link").map(({ ifname }: { ifname: string }) => ifname);
}

function errnoOf(work: () => unknown): string {
  return assertThrows(work, NetlinkError).errno;
}

rootTest("LinkRequests.addVeth() makes both ends where they belong", () => {
  using hosts = TestHosts.create();
  const { host, sandbox } = hosts;
  using rtnl = Rtnl.open(host.path);
  const mac = Mac.parse("0a:58:0a:01:02:03");
  const link = rtnl.link.addVeth({
    name: "veth0",
    mtu: 1400,
    peer: { netns: sandbox, name: "eth0", mac },
  });
  const [outer, inner] = [show(host, "veth0"), show(sandbox, "eth0")];
  assertEquals(link, {
    index: outer.ifindex,
    name: "veth0",
    kind: "veth",
    mac: Mac.parse(outer.address),
    mtu: 1400,
    isUp: true,
    linkIndex: inner.ifindex,
    linkNsid: outer.link_netnsid,
    masterIndex: undefined,
    alias: undefined,
    alternativeNames: [],
    permanentMac: undefined,
    parent: undefined,
    isOperational: false,
    isPromiscuous: false,
    isAllMulticast: false,
    hasArp: true,
    hasMulticast: true,
    group: 0,
    transmitQueueLength: 1000,
    data: undefined,
    port: undefined,
  });
  assertEquals(inner.address, String(mac));
  assertEquals([outer.flags.includes("UP"), inner.flags.includes("UP")], [
    true,
    false,
  ]);
  // A kernel without CONFIG_RPS does not count receive queues.
  const [lo] = ipJson(host, "link", "show", "lo");
  const rxQueues = lo.num_rx_queues === undefined ? undefined : 1;
  for (const end of [outer, inner]) {
    assertEquals([end.mtu, end.linkinfo.info_kind], [1400, "veth"]);
    assertEquals([end.num_tx_queues, end.num_rx_queues], [1, rxQueues]);
  }
  assertEquals([namesOf(host), namesOf(sandbox)], [
    ["lo", "veth0"],
    ["lo", "eth0"],
  ]);
});

rootTest("LinkRequests.addVeth() leaves MTU and MAC to the kernel", () => {
  using hosts = TestHosts.create();
  const { host, sandbox } = hosts;
  using rtnl = Rtnl.open(host.path);
  const peer = { netns: sandbox, name: "eth0", mac: undefined };
  const link = rtnl.link.addVeth({ name: "veth0", mtu: undefined, peer });
  const { address, mtu } = show(sandbox, "eth0");
  assertEquals([link.mtu, mtu], [1500, 1500]);
  assert(Mac.parse(address).isLocallyAdministered);
});

rootTest("LinkRequests.addVeth() makes both ends in one namespace", () => {
  using hosts = TestHosts.create();
  using rtnl = Rtnl.open(hosts.host.path);
  const peer = { netns: hosts.host, name: "veth1" };
  const link = rtnl.link.addVeth({ name: "veth0", peer });
  assertEquals(link.name, "veth0");
  assertEquals(link.linkIndex, rtnl.link.get("veth1").index);
});

rootTest(
  "LinkRequests.addVeth() refuses taken names, either end",
  async (t) => {
    using hosts = TestHosts.create();
    const { host, sandbox } = hosts;
    using rtnl = Rtnl.open(host.path);
    rtnl.link.addVeth({
      name: "veth0",
      peer: { netns: sandbox, name: "eth0" },
    });
    const rows: [name: string, peer: string][] = [
      ["veth0", "eth1"],
      ["veth1", "eth0"],
      ["veth0", "eth0"],
    ];
    await eachRow(t, rows, ([name, peer]) => {
      const add = (): unknown =>
        rtnl.link.addVeth({ name, peer: { netns: sandbox, name: peer } });
      assertEquals(errnoOf(add), "EEXIST");
      assertEquals(namesOf(host), ["lo", "veth0"]);
      assertEquals(namesOf(sandbox), ["lo", "eth0"]);
    }, ([name, peer]) => `${name} and ${peer}`);
  },
);

rootTest("LinkRequests.get() and find() look up by name and index", () => {
  using hosts = TestHosts.create();
  using rtnl = Rtnl.open(hosts.host.path);
  const lo = rtnl.link.get("lo");
  assertEquals([lo.index, lo.kind, lo.mtu, lo.isUp], [1, "", 65536, true]);
  assertEquals(rtnl.link.get(1), lo);
  assertEquals(rtnl.link.find(1), lo);
  assertEquals([rtnl.link.find("none"), rtnl.link.find(999)], [
    undefined,
    undefined,
  ]);
  assertEquals(errnoOf(() => rtnl.link.get("none")), "ENODEV");
  assertEquals(errnoOf(() => rtnl.link.get(999)), "ENODEV");
  assertEquals(rtnl.link.find("x".repeat(128)), undefined);
  // Other errors do not mean a missing link.
  assertEquals(errnoOf(() => rtnl.link.find(0)), "EINVAL");
});

rootTest("LinkRequests.list() lists what ip lists", () => {
  using hosts = TestHosts.create();
  const { host, sandbox } = hosts;
  runIn(host, "ip", "link", "add", "br0", "type", "bridge");
  runIn(host, "ip", "link", "set", "br0", "alias", "a bridge");
  using rtnl = Rtnl.open(host.path);
  for (const name of ["a", "b", "c.1", "fifteen-letters"]) {
    rtnl.link.addVeth({ name, peer: { netns: sandbox, name } });
  }
  runIn(host, "ip", "link", "set", "dev", "b", "master", "br0", "down");
  runIn(host, "ip", "link", "set", "dev", "a", "arp", "off", "group", "7");
  const expected = ipJson(host, "link").map((
    // deno-lint-ignore no-explicit-any -- as ip prints it
    link: any,
  ) => ({
    index: link.ifindex,
    name: link.ifname,
    kind: link.linkinfo?.info_kind ?? "",
    mac: Mac.parse(link.address),
    mtu: link.mtu,
    isUp: link.flags.includes("UP"),
    linkIndex: link.link_index ?? undefined,
    linkNsid: link.link_netnsid,
    masterIndex: link.master && rtnl.link.get(link.master).index,
    alias: link.ifalias,
    alternativeNames: link.altnames ?? [],
    permanentMac: link.permaddr && Mac.parse(link.permaddr),
    parent: link.parentdev &&
      { bus: link.parentbus, name: link.parentdev },
    isOperational: link.flags.includes("LOWER_UP"),
    isPromiscuous: link.flags.includes("PROMISC"),
    isAllMulticast: link.flags.includes("ALLMULTI"),
    hasArp: !link.flags.includes("NOARP"),
    hasMulticast: link.flags.includes("MULTICAST"),
    group: link.group === "default" ? 0 : Number(link.group),
    transmitQueueLength: link.txqlen,
    data: link.linkinfo?.info_kind !== "bridge" ? undefined : {
      kind: "bridge",
      vlanFiltering: link.linkinfo.info_data.vlan_filtering === 1,
      defaultVlan: link.linkinfo.info_data.vlan_default_pvid ?? 0,
    },
    port: link.linkinfo?.info_slave_kind !== "bridge" ? undefined : {
      hairpin: link.linkinfo.info_slave_data.hairpin,
      isolated: link.linkinfo.info_slave_data.isolated,
      learns: link.linkinfo.info_slave_data.learning,
      isFlooded: link.linkinfo.info_slave_data.flood,
      state: link.linkinfo.info_slave_data.state,
    },
  }));
  assertEquals(rtnl.link.list(), expected);
  const namesBy = (filter: LinkFilter): string[] =>
    rtnl.link.list(filter).map(({ name }) => name);
  const veths = ["a", "b", "c.1", "fifteen-letters"];
  assertEquals(namesBy({ kind: "veth" }), veths);
  assertEquals(rtnl.link.listSome({ kind: "veth" }).items.length, 4);
  // The kernel lists all links if it has none of the kind.
  assertEquals(namesBy({ kind: "ifb" }), []);
  const masterIndex = rtnl.link.get("br0").index;
  assertEquals(namesBy({ masterIndex }), ["b"]);
  assertEquals(namesBy({ kind: "veth", masterIndex }), ["b"]);
  assertEquals(namesBy({ kind: "ifb", masterIndex }), []);
});

rootTest("LinkRequests.setUp() and setDown() change only that", () => {
  using hosts = TestHosts.create();
  const { host, sandbox } = hosts;
  using rtnl = Rtnl.open(host.path);
  const peer = { netns: sandbox, name: "eth0" };
  const { index } = rtnl.link.addVeth({ name: "veth0", peer });
  runIn(host, "ip", "link", "set", "veth0", "promisc", "on");
  const flags = (): string[] =>
    show(host, "veth0").flags
      .filter((flag: string) => ["UP", "PROMISC"].includes(flag)).sort();
  rtnl.link.set(index, { isUp: false });
  assertEquals(flags(), ["PROMISC"]);
  rtnl.link.set(index, { isUp: false });
  rtnl.link.set(index, { isUp: true });
  assertEquals(flags(), ["PROMISC", "UP"]);
  assertEquals(errnoOf(() => rtnl.link.set(999, { isUp: true })), "ENODEV");
  assertEquals(errnoOf(() => rtnl.link.set(999, { isUp: false })), "ENODEV");
});

rootTest("LinkRequests.del() and ensureGone() delete by name and index", () => {
  using hosts = TestHosts.create();
  const { host, sandbox } = hosts;
  using rtnl = Rtnl.open(host.path);
  const add = (name: string): number =>
    rtnl.link.addVeth({ name, peer: { netns: sandbox, name } }).index;
  rtnl.link.del(add("a"));
  add("b");
  rtnl.link.del("b");
  assertEquals(rtnl.link.ensureGone(add("c")), true);
  add("d");
  assertEquals(rtnl.link.ensureGone("d"), true);
  assertEquals([namesOf(host), namesOf(sandbox)], [["lo"], ["lo"]]);
  for (const link of ["none", 999]) {
    assertEquals(errnoOf(() => rtnl.link.del(link)), "ENODEV");
    assertEquals(rtnl.link.ensureGone(link), false);
  }
  // Other errors do not mean a missing link.
  assertEquals(errnoOf(() => rtnl.link.ensureGone("lo")), "EOPNOTSUPP");
});

rootTest("LinkRequests.ensureAllGone() deletes the given links only", () => {
  using hosts = TestHosts.create();
  const { host, sandbox } = hosts;
  using rtnl = Rtnl.open(host.path);
  const ifb = { mtu: 1500, transmitQueueLength: 1 };
  const add = (name: string): number =>
    rtnl.link.addVeth({ name, peer: { netns: sandbox, name } }).index;
  const toDelete = [add("a"), rtnl.link.addIfb({ ...ifb, name: "b" }).index];
  add("c");
  rtnl.link.ensureAllGone([999, ...toDelete]);
  assertEquals([namesOf(host), namesOf(sandbox)], [["lo", "c"], ["lo", "c"]]);
  rtnl.link.ensureAllGone(toDelete);
  rtnl.link.ensureAllGone([]);
  assertEquals(namesOf(host), ["lo", "c"]);
  rtnl.link.ensureAllGone([rtnl.link.get("c").index]);
  assertEquals([namesOf(host), namesOf(sandbox)], [["lo"], ["lo"]]);
});

rootTest("LinkRequests.ensureAllGone() deletes all or none", () => {
  using hosts = TestHosts.create();
  const { host, sandbox } = hosts;
  using rtnl = Rtnl.open(host.path);
  const veth = { name: "a", peer: { netns: sandbox, name: "a" } };
  const { index } = rtnl.link.addVeth(veth);
  const loopback = rtnl.link.get("lo").index;
  const refused = (): void => rtnl.link.ensureAllGone([index, loopback]);
  assertEquals(errnoOf(refused), "EOPNOTSUPP");
  assertEquals([namesOf(host), namesOf(sandbox)], [["lo", "a"], ["lo", "a"]]);
});

rootTest("LinkRequests.addBridge() makes a bridge that is up", () => {
  using hosts = TestHosts.create();
  const { host } = hosts;
  using rtnl = Rtnl.open(host.path);
  const mac = Mac.parse("0a:58:0a:01:02:01");
  const { index } = rtnl.link.addBridge({ name: "br0", mtu: 1400, mac });
  const shown = show(host, "br0");
  assertEquals(shown.linkinfo.info_kind, "bridge");
  assertEquals([shown.ifindex, shown.mtu], [index, 1400]);
  assertEquals([shown.address, shown.flags.includes("UP")], [`${mac}`, true]);
  assertEquals(errnoOf(() => rtnl.link.addBridge({ name: "br0" })), "EEXIST");
});

rootTest("LinkRequests.setBridge() switches VLAN filtering", () => {
  using hosts = TestHosts.create();
  const { host } = hosts;
  using rtnl = Rtnl.open(host.path);
  const { index } = rtnl.link.addBridge({ name: "br0" });
  const set = (vlanFiltering: boolean): void =>
    rtnl.link.set(index, { bridge: { vlanFiltering } });
  const filtering = (): boolean => {
    const { data } = rtnl.link.get(index);
    assert(data?.kind === "bridge");
    return data.vlanFiltering;
  };
  try {
    set(true);
  } catch (error) {
    // Not every kernel supports bridge VLANs.
    assert(error instanceof NetlinkError && error.errno === "EOPNOTSUPP");
    assertEquals(filtering(), false);
    return;
  }
  assertEquals(filtering(), true);
  assertEquals(show(host, "br0").linkinfo.info_data.vlan_filtering, 1);
  set(false);
  assertEquals(filtering(), false);
});

rootTest("LinkRequests makes ports of a bridge, and changes them", () => {
  using hosts = TestHosts.create();
  const { host, sandbox } = hosts;
  using rtnl = Rtnl.open(host.path);
  const bridge = rtnl.link.addBridge({ name: "br0" });
  const { index } = rtnl.link.addVeth({
    name: "veth0",
    masterIndex: bridge.index,
    peer: { netns: sandbox, name: "eth0" },
  });
  assertEquals(show(host, "veth0").master, "br0");
  assertEquals(rtnl.link.get(index).masterIndex, bridge.index);
  for (const [hairpin, isolated] of [[true, false], [false, true]] as const) {
    rtnl.link.set(index, { port: { hairpin, isolated } });
    const { info_slave_data: port } = show(host, "veth0").linkinfo;
    assertEquals([port.hairpin, port.isolated], [hairpin, isolated]);
    const { state, ...flags } = rtnl.link.get(index).port ?? {};
    assertEquals(flags, { hairpin, isolated, learns: true, isFlooded: true });
    assertEquals(state, port.state);
  }
  rtnl.link.set(index, { port: { hairpin: true } });
  assertEquals(rtnl.link.get(index).port?.isolated, true);
  rtnl.link.set(index, { masterIndex: 0 });
  assertEquals(rtnl.link.get(index).masterIndex, undefined);
  const port = { hairpin: true };
  assertEquals(
    errnoOf(() => rtnl.link.set(index, { port: port })),
    "EOPNOTSUPP",
  );
});

rootTest("LinkRequests.set() changes what is given", () => {
  using hosts = TestHosts.create();
  const { host } = hosts;
  using rtnl = Rtnl.open(host.path);
  const { index } = rtnl.link.addBridge({ name: "br0" });
  const mac = Mac.parse("0a:58:0a:01:02:01");
  rtnl.link.set(index, {
    mac,
    mtu: 1300,
    isPromiscuous: true,
    isAllMulticast: true,
    hasArp: false,
    hasMulticast: false,
    group: 9,
    transmitQueueLength: 7,
  });
  const shown = show(host, "br0");
  assertEquals([shown.address, shown.mtu, shown.txqlen], [`${mac}`, 1300, 7]);
  assertEquals(shown.flags.includes("PROMISC"), true);
  assertEquals(shown.flags.includes("ALLMULTI"), true);
  assertEquals(shown.flags.includes("NOARP"), true);
  assertEquals([shown.flags.includes("MULTICAST"), shown.group], [false, "9"]);
  assertEquals(rtnl.link.get(index).isPromiscuous, true);
  rtnl.link.set(index, { isPromiscuous: false });
  assertEquals(rtnl.link.get(index).isAllMulticast, true);
  const { isPromiscuous, mtu, isUp } = rtnl.link.get(index);
  assertEquals([isPromiscuous, mtu, isUp], [false, 1300, true]);
});

rootTest("Link.isOperational follows the other end", () => {
  using hosts = TestHosts.create();
  const { host, sandbox } = hosts;
  using rtnl = Rtnl.open(host.path);
  using inner = Rtnl.open(sandbox.path);
  const { index, linkIndex = 0 } = rtnl.link.addVeth({
    name: "veth0",
    peer: { netns: sandbox, name: "eth0" },
  });
  assertEquals(rtnl.link.get(index).isOperational, false);
  inner.link.set(linkIndex, { isUp: true });
  assertEquals(rtnl.link.get(index).isOperational, true);
});

rootTest("LinkRequests.addVrf() creates a VRF that is up", needsVrf, () => {
  using hosts = TestHosts.create();
  using rtnl = Rtnl.open(hosts.host.path);
  const vrf = rtnl.link.addVrf({ name: "blue", table: 77 });
  const { ifindex, linkinfo, flags } = show(hosts.host, "blue");
  assertEquals([vrf.index, vrf.kind, vrf.isUp], [ifindex, "vrf", true]);
  assertEquals(vrf.data, { kind: "vrf", table: 77 });
  assertEquals(linkinfo.info_data.table, 77);
  assertEquals([linkinfo.info_kind, flags.includes("UP")], ["vrf", true]);
  const again = { name: "blue", table: 78 };
  assertEquals(errnoOf(() => rtnl.link.addVrf(again)), "EEXIST");
});

rootTest("LinkRequests.addIfb() creates an IFB that is up", async (t) => {
  using hosts = TestHosts.create();
  using rtnl = Rtnl.open(hosts.host.path);
  const alias = "of a container";
  // The kernel has no IPv6 on a link with a smaller MTU than 1280.
  await eachRow(
    t,
    [["ifb7", 1400], ["ifb8", 1000]] as const,
    ([name, size]) => {
      const settings = { name, mtu: size, transmitQueueLength: 7, alias };
      const link = rtnl.link.addIfb(settings);
      const { ifindex, linkinfo, mtu, txqlen, flags } = show(hosts.host, name);
      assertEquals([link.index, link.kind], [ifindex, linkinfo.info_kind]);
      assertEquals([link.isUp, link.alias], [true, alias]);
      assertEquals([mtu, txqlen, flags.includes("UP")], [size, 7, true]);
      assertEquals(
        rtnl.address.list().filter((one) => one.ifindex === ifindex),
        [],
      );
      assertEquals(errnoOf(() => rtnl.link.addIfb(settings)), "EEXIST");
    },
    ([, size]) => `with an MTU of ${size}`,
  );
});

rootTest("LinkRequests.addVeth() describes an end before it is up", () => {
  using hosts = TestHosts.create();
  const { host, sandbox } = hosts;
  using rtnl = Rtnl.open(host.path);
  const peer = { netns: sandbox, name: "eth0" };
  const { alias, isUp } = rtnl.link.addVeth({ name: "v0", alias: "a", peer });
  assertEquals([alias, isUp], ["a", true]);
});

rootTest(
  "LinkRequests.set() moves, renames and describes a link at once",
  () => {
    using hosts = TestHosts.create();
    using host = Rtnl.open(hosts.host.path);
    using sandbox = Rtnl.open(hosts.sandbox.path);
    const make = (netns: NetNs, name: string): void => {
      runIn(netns, "ip", "link", "add", name, "type", "ifb");
    };
    make(hosts.host, "ens5");
    make(hosts.sandbox, "ens5");
    const { index } = host.link.get("ens5");
    const { netns } = sandbox;
    host.link.set(index, { netns, name: "eth0", alias: "home" });
    assertEquals(host.link.find("ens5"), undefined);
    assertEquals(sandbox.link.get("eth0").alias, "home");
  },
);

rootTest("LinkRequests.find() looks for alternative names, too", () => {
  using hosts = TestHosts.create();
  using host = Rtnl.open(hosts.host.path);
  const name = "a-name-longer-than-fifteen-bytes";
  assertEquals(host.link.find(name), undefined);
  runIn(
    hosts.host,
    "ip",
    "link",
    "property",
    "add",
    "dev",
    "lo",
    "altname",
    name,
  );
  assertEquals(host.link.find(name)?.name, "lo");
});

rootTest(
  "LinkRequests.get() finds a name that has more bytes than letters",
  () => {
    using hosts = TestHosts.create();
    using rtnl = Rtnl.open(hosts.host.path);
    const name = "ä".repeat(10);
    rtnl.link.addAlternativeNames(1, [name]);
    assertEquals(rtnl.link.get(name).index, 1);
  },
);

rootTest("LinkRequests changes alternative names of a link", () => {
  using hosts = TestHosts.create();
  using rtnl = Rtnl.open(hosts.host.path);
  const names = (): string[] => ipJson(hosts.host, "link")[0].altnames ?? [];
  rtnl.link.addAlternativeNames(1, []);
  rtnl.link.addAlternativeNames(1, ["loop", "a-name-of-more-than-15-bytes"]);
  assertEquals(names(), ["loop", "a-name-of-more-than-15-bytes"]);
  assertEquals(rtnl.link.get("loop").alternativeNames, names());
  assertEquals(
    errnoOf(() => rtnl.link.addAlternativeNames(1, ["lo"])),
    "EEXIST",
  );
  rtnl.link.removeAlternativeNames(1, ["loop"]);
  assertEquals(names(), ["a-name-of-more-than-15-bytes"]);
  assertEquals(
    errnoOf(() => rtnl.link.removeAlternativeNames(1, ["loop"])),
    "ENOENT",
  );
});

rootTest("LinkRequests.set() moves a link to an index", () => {
  using hosts = TestHosts.create();
  const { host, sandbox } = hosts;
  using rtnl = Rtnl.open(host.path);
  using inside = Rtnl.open(sandbox.path);
  const { index } = rtnl.link.addVeth({
    name: "veth0",
    peer: { netns: host, name: "veth1" },
  });
  rtnl.link.set(index, { netns: sandbox, name: "eth0", newIndex: 4711 });
  assertEquals(inside.link.get("eth0").index, 4711);
});

rootTest(
  "LinkRequests.findPeer() finds no end of which the kernel does not tell",
  needsUserNamespaces(),
  async () => {
    // Root of a user namespace is nobody in the namespaces of the machine.
    await using container = await startUserNamespace();
    using netns = NetNs.open(`/proc/${container.pid}/ns/net`);
    using hosts = TestHosts.create();
    const end = ["type", "veth", "peer", "name", "v1", "netns"];
    const pid = String(container.pid);
    runIn(hosts.host, "ip", "link", "add", "v0", ...end, pid);
    const script = `
      import { Rtnl } from "${import.meta.resolve("./mod.ts")}";
      using rtnl = Rtnl.open("/proc/thread-self/ns/net");
      const link = rtnl.link.get("v1");
      console.log(rtnl.link.findPeer(link), rtnl.link.hasLivePeer(link));
    `;
    const output = runIn(
      netns,
      "nsenter",
      ...["--preserve-credentials", `--user=/proc/${pid}/ns/user`],
      ...[Deno.execPath(), "run", "-A", "--no-check", asModule(script)],
    );
    assertEquals(output, "undefined true\n");
  },
);
