// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import {
  detachByWhatIsLeft,
  testAttaching,
} from "../../tests/_harness/attachment_cases.ts";
import {
  assertFailure,
  assertSuccess,
} from "../../tests/_harness/call_outcome.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { dualStack } from "../../tests/_harness/dual_stack.ts";
import { writeFakeIpam } from "../../tests/_harness/fake_ipam.ts";
import {
  canPing,
  findReached,
  ipJson,
  runIn,
  stockOf,
} from "../../testing/ip_json.ts";
import { type Keys, PluginScene } from "../../tests/_harness/plugin_scene.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";

testAttaching("ptp", dualStack, ["onlink"]);

/** Builds a configuration with the addresses of a fake IPAM result. */
function withFakeIpam(hosts: TestHosts, result: unknown): {
  config: { cniVersion: string; name: string; type: string; ipam: unknown };
  calls: () => string[];
} {
  const ipam = writeFakeIpam(hosts.path, { ADD: { stdout: result } });
  const config = {
    cniVersion: "1.1.0",
    name: "net1",
    type: "ptp",
    ipam: { type: ipam.type },
  };
  return { config, calls: ipam.calls };
}

rootTest("ptp.add() routes both families through their gateways", async () => {
  using hosts = TestHosts.create();
  const { sandbox } = hosts;
  const config = {
    ...dualStack(hosts),
    ipam: {
      ...hosts.hostLocal("10.1.2.0/24", "2001:db8:1::0/66"),
      routes: [
        { dst: "0.0.0.0/0" },
        { dst: "192.168.0.0/16" },
        { dst: "1.2.3.4/32" },
      ],
    },
  };
  const added = await hosts.run("ptp", "ADD", config);
  assertSuccess(added);
  assert(canPing(sandbox, "10.1.2.1"));
  assert(canPing(sandbox, "2001:db8:1::1"));
  const routes = ipJson(sandbox, "-4", "route").map(
    ({ dst, gateway, scope, prefsrc }: Record<string, string>) =>
      [dst, gateway, scope, prefsrc].join(" "),
  );
  assertEquals(routes, [
    "default 10.1.2.1 global ",
    "1.2.3.4 10.1.2.1 global ",
    "10.1.2.0/24 10.1.2.1 global 10.1.2.2",
    "10.1.2.1  link 10.1.2.2",
    "192.168.0.0/16 10.1.2.1 global ",
  ]);
  const withResult = { ...config, prevResult: added.json };
  assertSuccess(await hosts.run("ptp", "CHECK", withResult));
  assertSuccess(await hosts.run("ptp", "DEL", config));
});

rootTest("ptp.add() skips duplicate address detection", async () => {
  using hosts = TestHosts.create();
  assertSuccess(await hosts.run("ptp", "ADD", dualStack(hosts)));
  // Detection would begin with the address, and make it tentative.
  const addresses = [hosts.host, hosts.sandbox].flatMap((netns) =>
    ipJson(netns, "-6", "address", "show")
      .flatMap((link: { addr_info: { scope: string }[] }) => link.addr_info)
      .filter(({ scope }: { scope: string }) => scope === "global")
  );
  assertEquals(addresses.length, 2);
  for (const address of addresses) {
    assertEquals(address.nodad, true);
    assertEquals(address.tentative, undefined);
  }
});

rootTest("ptp.add() connects two containers and the host", async () => {
  using hosts = TestHosts.create();
  const config = dualStack(hosts);
  const other = hosts.addNetns();
  assertSuccess(await hosts.run("ptp", "ADD", config));
  assertSuccess(
    await hosts.run("ptp", "ADD", config, {
      sandbox: other,
      containerId: "other",
    }),
  );
  const [left, right] = [["10.1.2.2", "2001:db8:1::2"], [
    "10.1.2.3",
    "2001:db8:1::3",
  ]] as const;
  assertEquals(findReached(hosts.sandbox, right), right);
  assertEquals(findReached(other, left), left);
  const some = [left[0], right[1]];
  assertEquals(findReached(hosts.host, some), some);
});

rootTest("ptp returns the DNS of configuration or IPAM plugin", async (t) => {
  const resolvConf = "nameserver 192.0.2.53\ndomain example.net\n" +
    "search a.example\noptions ndots:2\n";
  const ipamDns = {
    nameservers: ["192.0.2.53"],
    domain: "example.net",
    search: ["a.example"],
    options: ["ndots:2"],
  };
  const rows: [name: string, dns: unknown, want: unknown][] = [
    ["no dns key: the IPAM plugin's", undefined, ipamDns],
    ["an empty dns key: the IPAM plugin's", {}, ipamDns],
    ["nameservers only", { nameservers: ["1.1.1.1"] }, {
      nameservers: ["1.1.1.1"],
    }],
    ["domain only", { domain: "x" }, { domain: "x" }],
    ["search only", { search: ["y"] }, { search: ["y"] }],
    ["options only", { options: ["z"] }, { options: ["z"] }],
    ["keys in another case", { NameServers: ["1.1.1.1"] }, {
      nameservers: ["1.1.1.1"],
    }],
    ["an empty list: none", { nameservers: [] }, undefined],
  ];
  await eachRow(t, rows, async ([, dns, want]) => {
    using hosts = TestHosts.create();
    const file = `${hosts.directory}/resolv.conf`;
    Deno.writeTextFileSync(file, resolvConf);
    const config = dualStack(hosts);
    const added = await hosts.run("ptp", "ADD", {
      ...config,
      dns,
      ipam: { ...config.ipam, resolvConf: file },
    });
    assertSuccess(added);
    assertEquals(added.json.dns, want);
  });
});

rootTest("ptp.add() refuses invalid IPAM results", async (t) => {
  const rows: [name: string, result: unknown, code: number, text: string][] = [
    ["no address", { cniVersion: "1.1.0" }, 7, "missing IP config"],
    [
      "a gateway of the other family",
      { ips: [{ address: "10.0.0.2/24", gateway: "fd00::1" }] },
      7,
      "gateway fd00::1 for 10.0.0.2/24",
    ],
    ["no JSON object", ["x"], 6, "result"],
    [
      "an address without prefix length",
      { ips: [{ address: "10.0.0.2" }] },
      6,
      "invalid CIDR address: 10.0.0.2",
    ],
  ];
  await eachRow(t, rows, async ([, result, code, text]) => {
    using hosts = TestHosts.create();
    const before = stockOf(hosts);
    const { config, calls } = withFakeIpam(hosts, result);
    assertFailure(await hosts.run("ptp", "ADD", config), code, text);
    assertEquals(calls(), ["ADD", "DEL"]);
    assertEquals(stockOf(hosts), before);
  });
});

rootTest("ptp.add() handles unusual addresses and gateways", async (t) => {
  const rows: [name: string, ips: unknown[], pings: string[]][] = [
    [
      "two addresses that share a gateway",
      [
        { address: "10.0.0.2/24", gateway: "10.0.0.1" },
        { address: "10.0.0.3/24", gateway: "10.0.0.1" },
      ],
      ["10.0.0.1"],
    ],
    [
      "a /32 with a gateway elsewhere",
      [{ address: "10.0.0.2/32", gateway: "169.254.1.1" }],
      ["169.254.1.1"],
    ],
    [
      "a /128 with a gateway elsewhere",
      [{ address: "fd00::2/128", gateway: "fd00:9::1" }],
      ["fd00:9::1"],
    ],
    [
      "a /31, as RFC 3021 has it",
      [{ address: "10.0.0.3/31", gateway: "10.0.0.2" }],
      ["10.0.0.2"],
    ],
    [
      "no gateways",
      [{ address: "10.0.0.2/24" }, { address: "fd00::2/64" }],
      ["169.254.1.1"],
    ],
    [
      "a /32 and a /128 without gateways",
      [{ address: "10.0.0.2/32" }, { address: "fd00::2/128" }],
      ["169.254.1.1"],
    ],
    [
      "one gateway for the first of two addresses",
      [
        { address: "10.0.0.2/24", gateway: "10.0.0.1" },
        { address: "10.0.1.2/24" },
      ],
      ["10.0.0.1"],
    ],
    [
      "two subnets of each family",
      [
        { address: "10.0.0.2/24", gateway: "10.0.0.1" },
        { address: "10.0.1.2/24", gateway: "10.0.1.1" },
        { address: "fd00::2/64", gateway: "fd00::1" },
        { address: "fd01::2/64", gateway: "fd01::1" },
      ],
      ["10.0.0.1", "10.0.1.1", "fd00::1", "fd01::1"],
    ],
  ];
  await eachRow(t, rows, async ([, ips, gateways]) => {
    using hosts = TestHosts.create();
    const before = stockOf(hosts);
    const { config } = withFakeIpam(hosts, { ips });
    const added = await hosts.run("ptp", "ADD", config);
    assertSuccess(added);
    assertEquals(findReached(hosts.sandbox, gateways), gateways);
    const own = added.json.ips.map(({ address }: { address: string }) =>
      address.replace(/\/.*/, "")
    );
    assertEquals(findReached(hosts.host, own), own);
    const withResult = { ...config, prevResult: added.json };
    assertSuccess(await hosts.run("ptp", "CHECK", withResult));
    assertSuccess(await hosts.run("ptp", "DEL", withResult));
    assertEquals(stockOf(hosts), before);
  });
});

rootTest(
  "ptp keeps a new container with a reused address reachable",
  async () => {
    using hosts = TestHosts.create();
    const { config } = withFakeIpam(hosts, {
      ips: [
        { address: "10.0.0.2/24", gateway: "10.0.0.1" },
        { address: "fd00::2/64", gateway: "fd00::1" },
      ],
    });
    const next = { sandbox: hosts.addNetns(), containerId: "next" };
    assertSuccess(await hosts.run("ptp", "ADD", config));
    runIn(hosts.sandbox, "ip", "addr", "flush", "dev", "eth0");
    assertSuccess(await hosts.run("ptp", "ADD", config, next));
    assertSuccess(await hosts.run("ptp", "DEL", config));
    assert(canPing(hosts.host, "10.0.0.2"));
    assert(canPing(hosts.host, "fd00::2"));
  },
);

rootTest(
  "ptp.del() removes everything even if parts of the input are missing",
  (t) => detachByWhatIsLeft(t, () => new PluginScene("ptp", dualStack)),
);

rootTest("ptp.del() keeps interfaces of other attachments", async (t) => {
  await t.step(
    "of another attachment, with which ADD failed",
    async () => {
      using hosts = TestHosts.create();
      const config = dualStack(hosts);
      assertSuccess(await hosts.run("ptp", "ADD", config));
      const before = stockOf(hosts);
      const other = { ...config, name: "net2" };
      assertFailure(await hosts.run("ptp", "ADD", other), 4, '"eth0"');
      assertSuccess(await hosts.run("ptp", "DEL", other));
      assertEquals(stockOf(hosts), before);
    },
  );
  await t.step("of another kind", async () => {
    using hosts = TestHosts.create();
    runIn(hosts.sandbox, "ip", "link", "add", "eth0", "type", "bridge");
    assertSuccess(await hosts.run("ptp", "DEL", dualStack(hosts)));
    assertEquals(ipJson(hosts.sandbox, "link").length, 2);
  });
  const withVeth = (
    hosts: TestHosts,
    hostSide: NetNs,
    name: string,
  ): number => {
    using end = Rtnl.open(hostSide.path);
    using sandbox = Rtnl.open(hosts.sandbox.path);
    const peer = { netns: sandbox.netns, name: "eth0" };
    return end.link.addVeth({ name, peer }).index;
  };
  await t.step("a veth into a third namespace", async () => {
    using hosts = TestHosts.create();
    withVeth(hosts, hosts.addNetns(), "veth12345678");
    const config = { ...dualStack(hosts), cniVersion: "0.3.1" };
    assertSuccess(await hosts.run("ptp", "DEL", config));
    assertEquals(ipJson(hosts.sandbox, "link").length, 2);
  });
  await t.step("a port of a bridge", async () => {
    using hosts = TestHosts.create();
    withVeth(hosts, hosts.host, "veth12345678");
    runIn(hosts.host, "ip", "link", "add", "br0", "type", "bridge");
    runIn(hosts.host, "ip", "link", "set", "veth12345678", "master", "br0");
    const config = { ...dualStack(hosts), cniVersion: "0.3.1" };
    assertSuccess(await hosts.run("ptp", "DEL", config));
    assertEquals(ipJson(hosts.sandbox, "link").length, 2);
  });
  await t.step("one without a lease, unless prevResult names it", async () => {
    using hosts = TestHosts.create();
    withVeth(hosts, hosts.host, "veth12345678");
    const config = dualStack(hosts);
    const { exitCode, stderr } = await hosts.run("ptp", "DEL", config);
    assertEquals(exitCode, 0);
    assertStringIncludes(stderr, "Keeping an interface that might belong to");
    assertEquals(ipJson(hosts.sandbox, "link").length, 2);
    const interfaces = [
      { name: "veth12345678" },
      { name: "eth0", sandbox: hosts.sandbox.path },
    ];
    const prevResult = { cniVersion: "1.1.0", interfaces };
    assertSuccess(await hosts.run("ptp", "DEL", { ...config, prevResult }));
    assertEquals(ipJson(hosts.sandbox, "link").length, 1);
  });
});

rootTest("ptp.add() keeps the lease if the sandbox differs", async () => {
  using hosts = TestHosts.create();
  const config = dualStack(hosts);
  assertSuccess(await hosts.run("ptp", "ADD", config));
  const before = stockOf(hosts);
  const leases = hosts.leases();
  const sandbox = hosts.addNetns();
  assertFailure(
    await hosts.run("ptp", "ADD", config, { sandbox }),
    999,
    "duplicate allocation is not allowed",
  );
  assertEquals(stockOf(hosts), before);
  assertEquals(hosts.leases(), leases);
});

rootTest("ptp.gc() deletes the links of stale attachments", async () => {
  using hosts = TestHosts.create();
  const config = dualStack(hosts);
  const add = async (containerId: string, extras: Keys): Promise<NetNs> => {
    const sandbox = hosts.addNetns();
    const call = { sandbox, containerId };
    const withExtras = { ...config, ...extras };
    assertSuccess(await hosts.run("ptp", "ADD", withExtras, call));
    return sandbox;
  };
  const ipam = hosts.hostLocal("10.9.0.0/24", "2001:db8:9::/64");
  const kept = await add("kept", {});
  const stale = await add("stale", {});
  const other = await add("stale", { name: "net2", ipam });
  const countLinks = (): number[] =>
    [kept, stale, other].map((netns) => ipJson(netns, "link").length);
  assertSuccess(await hosts.run("ptp", "GC", config));
  assertEquals(countLinks(), [2, 2, 2]);
  const valid = [{ containerID: "kept", ifname: "eth0" }];
  const withValid = { ...config, "cni.dev/valid-attachments": valid };
  assertSuccess(await hosts.run("ptp", "GC", withValid));
  assertEquals(countLinks(), [2, 1, 2]);
  assertEquals(hosts.leases("net1"), ["10.1.2.2", "2001:db8:1::2"]);
  assertEquals(hosts.leases("net2").length, 2);
});

rootTest("ptp.add() refuses a name that the kernel would change", async () => {
  using hosts = TestHosts.create();
  const call = { ifName: "eth%d" };
  const added = await hosts.run("ptp", "ADD", dualStack(hosts), call);
  assertFailure(added, 4, 'Cannot add interface "eth%d"');
  assertEquals(hosts.leases(), []);
});

rootTest("ptp.del() succeeds if nothing was added", async () => {
  using hosts = TestHosts.create();
  assertSuccess(await hosts.run("ptp", "DEL", dualStack(hosts)));
  assertEquals(hosts.leases(), []);
});

rootTest("ptp.del() does not change the host's own interfaces", async () => {
  using hosts = TestHosts.create();
  const config = dualStack(hosts);
  runIn(hosts.host, "ip", "link", "add", "eth0", "type", "bridge");
  assertSuccess(await hosts.run("ptp", "ADD", config));
  const env = { CNI_NETNS: hosts.host.path };
  const deleted = await hosts.run("ptp", "DEL", config, { env });
  assertFailure(deleted, 8, "should not be the same");
  const links = ipJson(hosts.host, "link").map((link: { ifname: string }) =>
    link.ifname
  );
  assertEquals(links, ["lo", "eth0"]);
  assertEquals(hosts.leases(), []);
});

rootTest("ptp.del() deletes the link even if IPAM fails", async () => {
  using hosts = TestHosts.create();
  const ipam = writeFakeIpam(hosts.path, {
    ADD: { stdout: { ips: [{ address: "10.0.0.2/24", gateway: "10.0.0.1" }] } },
    DEL: { stdout: { code: 117, msg: "the store is on fire" }, exitCode: 1 },
  });
  const config = {
    cniVersion: "1.1.0",
    name: "net1",
    type: "ptp",
    ipam: { type: ipam.type },
  };
  assertSuccess(await hosts.run("ptp", "ADD", config));
  const deleted = await hosts.run("ptp", "DEL", config);
  assertFailure(deleted, 117, "the store is on fire");
  assertEquals(ipJson(hosts.sandbox, "link").length, 1);
});

rootTest("ptp.del() accepts a configuration that ADD refuses", async () => {
  using hosts = TestHosts.create();
  const config = dualStack(hosts);
  assertSuccess(await hosts.run("ptp", "ADD", config));
  const deleted = await hosts.run("ptp", "DEL", { ...config, mtu: "1500" });
  assertEquals(deleted.exitCode, 0, deleted.stdout);
  assertStringIncludes(deleted.stderr, "mtu");
  assertEquals(hosts.leases(), []);
});

rootTest("ptp.add() replaces a stale host end", async () => {
  using hosts = TestHosts.create();
  const config = dualStack(hosts);
  const added = await hosts.run("ptp", "ADD", config);
  assertSuccess(added);
  // The sandbox was recreated, a process still holds the old one, and the
  // lease was released by other means.
  Deno.removeSync(`${hosts.directory}/leases`, { recursive: true });
  const again = await hosts.run("ptp", "ADD", config, {
    sandbox: hosts.addNetns(),
  });
  assertSuccess(again);
  assertEquals(again.json.interfaces[0].name, added.json.interfaces[0].name);
  assert(canPing(hosts.host, "10.1.2.2"));
  using sandbox = Rtnl.open(hosts.sandbox.path);
  assertEquals(sandbox.link.find("eth0"), undefined);
});

rootTest("ptp.add() refuses an invalid CNI_NETNS", async (t) => {
  const rows: [string, (hosts: TestHosts) => string, string][] = [
    [
      "not there",
      () => "/run/netns/never-made",
      "Cannot open network namespace",
    ],
    [
      "a plain file",
      (hosts) => hosts.directory + "/bin/ptp",
      "Cannot open network namespace",
    ],
    [
      "a namespace of another kind",
      () => "/proc/self/ns/uts",
      "Cannot open network namespace",
    ],
    ["the host's own", (hosts) => hosts.host.path, "should not be the same"],
  ];
  await eachRow(t, rows, async ([, netnsOf, text]) => {
    using hosts = TestHosts.create();
    const env = { CNI_NETNS: netnsOf(hosts) };
    const added = await hosts.run("ptp", "ADD", dualStack(hosts), { env });
    assertFailure(added, 8, text);
    assertEquals(hosts.leases(), []);
  });
});

rootTest("ptp runs STATUS and GC of the IPAM plugin", async (t) => {
  await eachRow(t, ["STATUS", "GC"], async (command) => {
    using hosts = TestHosts.create();
    const { config, calls } = withFakeIpam(hosts, {});
    const valid = { ...config, "cni.dev/valid-attachments": null };
    assertSuccess(await hosts.run("ptp", command, valid));
    assertEquals(calls(), [command]);
  });
  await t.step("not GC without a list of valid attachments", async () => {
    using hosts = TestHosts.create();
    const { config, calls } = withFakeIpam(hosts, {});
    assertSuccess(await hosts.run("ptp", "GC", config));
    assertEquals(calls(), []);
  });
  await t.step("STATUS relays code 50", async () => {
    using hosts = TestHosts.create();
    const ipam = writeFakeIpam(hosts.path, {
      STATUS: { stdout: { code: 50, msg: "no addresses" }, exitCode: 1 },
    });
    const config = { ...dualStack(hosts), ipam: { type: ipam.type } };
    const status = await hosts.run("ptp", "STATUS", config);
    assertFailure(status, 50, "no addresses");
  });
});
