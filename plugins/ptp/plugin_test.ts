// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits meanwhile
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { requireRoot } from "../../tests/_harness/capabilities.ts";
import { dualStack } from "../../tests/_harness/dual_stack.ts";
import { writeFakeIpam } from "../../tests/_harness/fake_ipam.ts";
import {
  canPing,
  ipJson,
  runIn,
  snapshot,
} from "../../tests/_harness/ip_json.ts";
import { type CallOutput, TestHosts } from "../../tests/_harness/test_hosts.ts";

/** A configuration whose addresses are what a test says. */
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

function assertSuccess({ exitCode, stdout, stderr }: CallOutput): void {
  assertEquals({ exitCode, stderr }, { exitCode: 0, stderr: "" }, stdout);
}

function assertFailure(output: CallOutput, code: number, text: string): void {
  assertEquals(output.exitCode, 1, output.stdout);
  assertEquals(output.json.code, code, output.stdout);
  assertStringIncludes(`${output.json.msg}; ${output.json.details}`, text);
}

Deno.test(
  requireRoot("ptp.add() routes both families through their gateways"),
  async () => {
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
  },
);

Deno.test(
  requireRoot("ptp.add() does not wait for duplicate address detection"),
  async () => {
    using hosts = TestHosts.create();
    const start = performance.now();
    assertSuccess(await hosts.run("ptp", "ADD", dualStack(hosts)));
    assert(
      performance.now() - start < 900,
      "it took as long as detection does",
    );
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
  },
);

Deno.test(
  requireRoot("ptp.add() lets two containers and the host reach each other"),
  async () => {
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
    const reached = (from: NetNs, ...addresses: string[]): boolean[] =>
      addresses.map((address) => canPing(from, address));
    assertEquals(reached(hosts.sandbox, "10.1.2.3", "2001:db8:1::3"), [
      true,
      true,
    ]);
    assertEquals(reached(other, "10.1.2.2", "2001:db8:1::2"), [true, true]);
    assertEquals(reached(hosts.host, "10.1.2.2", "2001:db8:1::3"), [
      true,
      true,
    ]);
  },
);

Deno.test(
  requireRoot(
    "ptp answers with the dns that the configuration or the IPAM plugin sets",
  ),
  async (t) => {
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
    for (const [name, dns, want] of rows) {
      await t.step(name, async () => {
        using hosts = TestHosts.create();
        const file = `${hosts.folder}/resolv.conf`;
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
    }
  },
);

Deno.test(
  requireRoot(
    "ptp.add() leaves the attachment as it is when it is called again",
  ),
  async () => {
    using hosts = TestHosts.create();
    const config = dualStack(hosts);
    assertSuccess(await hosts.run("ptp", "ADD", config));
    const before = [snapshot(hosts.host), snapshot(hosts.sandbox)];
    const leases = hosts.leases();
    assertFailure(
      await hosts.run("ptp", "ADD", config),
      4,
      'Cannot add interface "eth0"',
    );
    assertEquals([snapshot(hosts.host), snapshot(hosts.sandbox)], before);
    assertEquals(hosts.leases(), leases);
  },
);

Deno.test(
  requireRoot(
    "ptp.add() refuses what the IPAM plugin should not have answered",
  ),
  async (t) => {
    const rows: [name: string, result: unknown, code: number, text: string][] =
      [
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
    for (const [name, result, code, text] of rows) {
      await t.step(name, async () => {
        using hosts = TestHosts.create();
        const before = [snapshot(hosts.host), snapshot(hosts.sandbox)];
        const { config, calls } = withFakeIpam(hosts, result);
        assertFailure(await hosts.run("ptp", "ADD", config), code, text);
        assertEquals(calls(), ["ADD", "DEL"]);
        assertEquals([snapshot(hosts.host), snapshot(hosts.sandbox)], before);
      });
    }
  },
);

Deno.test(
  requireRoot(
    "ptp.add() copes with addresses that the usual gateway routes do not fit",
  ),
  async (t) => {
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
    for (const [name, ips, gateways] of rows) {
      await t.step(name, async () => {
        using hosts = TestHosts.create();
        const before = [snapshot(hosts.host), snapshot(hosts.sandbox)];
        const { config } = withFakeIpam(hosts, { ips });
        const added = await hosts.run("ptp", "ADD", config);
        assertSuccess(added);
        const pings = gateways.map((gateway) =>
          canPing(hosts.sandbox, gateway)
        );
        assertEquals(pings, gateways.map(() => true));
        for (const { address } of added.json.ips) {
          const [ip] = address.split("/");
          assertEquals(canPing(hosts.host, ip), true, ip);
        }
        const withResult = { ...config, prevResult: added.json };
        assertSuccess(await hosts.run("ptp", "CHECK", withResult));
        assertSuccess(await hosts.run("ptp", "DEL", withResult));
        assertEquals([snapshot(hosts.host), snapshot(hosts.sandbox)], before);
      });
    }
  },
);

Deno.test(requireRoot("ptp.add() honours every key of a route"), async () => {
  using hosts = TestHosts.create();
  const { config } = withFakeIpam(hosts, {
    cniVersion: "1.1.0",
    ips: [{ address: "10.0.0.2/24", gateway: "10.0.0.1" }],
    routes: [
      { dst: "10.1.0.0/16", mtu: 1300, advmss: 1200, priority: 7 },
      { dst: "10.2.0.0/16", table: 5000 },
      { dst: "10.3.0.0/16", gw: "10.0.0.77" },
      { dst: "10.4.5.6/16" },
      { dst: "10.4.0.0/16" },
    ],
  });
  const added = await hosts.run("ptp", "ADD", config);
  assertSuccess(added);
  const route = (...args: string[]): Record<string, unknown> =>
    ipJson(hosts.sandbox, "route", "show", ...args)[0];
  const metrics = route("10.1.0.0/16");
  assertEquals(metrics["metric"], 7);
  assertEquals(metrics["metrics"], [{ mtu: 1300, advmss: 1200 }]);
  assertEquals(route("table", "5000")["gateway"], "10.0.0.1");
  const onLink = route("10.3.0.0/16");
  assertEquals(onLink["gateway"], "10.0.0.77");
  assertEquals(onLink["flags"], ["onlink"]);
  assertEquals(
    ipJson(hosts.sandbox, "route", "show", "10.4.0.0/16").length,
    1,
  );
  const withResult = { ...config, prevResult: added.json };
  assertSuccess(await hosts.run("ptp", "CHECK", withResult));
});

Deno.test(
  requireRoot("ptp.add() turns IPv6 on where the runtime turned it off"),
  async () => {
    using hosts = TestHosts.create();
    for (const name of ["all", "default", "lo"]) {
      const key = `net.ipv6.conf.${name}.disable_ipv6=1`;
      runIn(hosts.sandbox, "sysctl", "-qw", key);
    }
    assertSuccess(await hosts.run("ptp", "ADD", dualStack(hosts)));
    assert(canPing(hosts.sandbox, "2001:db8:1::1"));
  },
);

Deno.test(
  requireRoot(
    "ptp keeps a new container reachable while the cable of an old one with the same address goes",
  ),
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
    assertSuccess(await hosts.run("ptp", "ADD", config, next));
    assertSuccess(await hosts.run("ptp", "DEL", config));
    assert(canPing(hosts.host, "10.0.0.2"));
    assert(canPing(hosts.host, "fd00::2"));
  },
);

Deno.test(
  requireRoot("ptp.check() notices everything that was changed"),
  async (t) => {
    const rows: [
      what: string,
      where: "host" | "sandbox",
      command: string,
      text: string,
    ][] = [
      ["no interface", "sandbox", "ip link del eth0", '"eth0" is gone'],
      ["interface down", "sandbox", "ip link set eth0 down", '"eth0" is down'],
      [
        "another MAC",
        "sandbox",
        "ip link set eth0 address 02:00:00:00:00:01",
        "has MAC 02:00:00:00:00:01",
      ],
      [
        "no IPv4 address",
        "sandbox",
        "ip addr del 10.1.2.2/24 dev eth0",
        "lacks address 10.1.2.2/24",
      ],
      [
        "no IPv6 address",
        "sandbox",
        "ip addr del 2001:db8:1::2/64 dev eth0",
        "lacks address 2001:db8:1::2/64",
      ],
      [
        "another prefix length",
        "sandbox",
        "ip addr del 10.1.2.2/24 dev eth0; ip addr add 10.1.2.2/16 dev eth0",
        "lacks address 10.1.2.2/24",
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
        "no default route",
        "sandbox",
        "ip route del default",
        "lacks route 0.0.0.0/0 via 10.1.2.1",
      ],
      [
        "no IPv6 default route",
        "sandbox",
        "ip -6 route del default",
        "lacks route ::/0 via 2001:db8:1::1",
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
      ["host's end down", "host", "ip link set $VETH down", "is down"],
      [
        "no IPv4 forwarding",
        "host",
        "sysctl -qw net.ipv4.ip_forward=0",
        "IPv4 forwarding is off",
      ],
      [
        "no IPv6 forwarding",
        "host",
        "sysctl -qw net.ipv6.conf.all.forwarding=0",
        "IPv6 forwarding is off",
      ],
      [
        "no lease",
        "host",
        "rm $LEASES/net1/10.1.2.2",
        "Failed to find address",
      ],
    ];
    for (const [what, where, command, text] of rows) {
      await t.step(what, async () => {
        using hosts = TestHosts.create();
        const config = dualStack(hosts);
        const added = await hosts.run("ptp", "ADD", config);
        assertSuccess(added);
        const withResult = { ...config, prevResult: added.json };
        assertSuccess(await hosts.run("ptp", "CHECK", withResult));
        const veth = added.json.interfaces[0].name;
        const script =
          `VETH=${veth}; LEASES=${hosts.folder}/leases; ${command}`;
        runIn(hosts[where], "sh", "-ec", script);
        assertFailure(await hosts.run("ptp", "CHECK", withResult), 999, text);
      });
    }
  },
);

Deno.test(
  requireRoot("ptp.check() tells interfaces of one network apart"),
  async () => {
    using hosts = TestHosts.create();
    const config = dualStack(hosts);
    const ifNames = ["eth0", "net1", "net2"];
    const results = [];
    for (const ifName of ifNames) {
      const added = await hosts.run("ptp", "ADD", config, { ifName });
      assertSuccess(added);
      results.push({ ifName, prevResult: added.json });
    }
    for (const { ifName, prevResult } of results) {
      const chained = { ...config, prevResult };
      assertSuccess(await hosts.run("ptp", "CHECK", chained, { ifName }));
    }
    runIn(hosts.sandbox, "ip", "-6", "route", "del", "default", "dev", "net1");
    const [, second] = results;
    const checked = await hosts.run("ptp", "CHECK", {
      ...config,
      prevResult: second?.prevResult,
    }, { ifName: "net1" });
    assertFailure(checked, 999, '"net1" lacks route ::/0');
  },
);

Deno.test(requireRoot("ptp.check() judges prevResult"), async (t) => {
  using hosts = TestHosts.create();
  const config = dualStack(hosts);
  const { json } = await hosts.run("ptp", "ADD", config);
  const other = hosts.addNetns();
  const alias = `${hosts.folder}/alias`;
  Deno.symlinkSync(hosts.sandbox.path, alias);
  const [hostEnd, containerEnd] = json.interfaces;
  const rows: [name: string, prevResult: unknown, text: string | undefined][] =
    [
      ["missing", undefined, "ptp: Required prevResult missing"],
      ["no interfaces", { ...json, interfaces: [] }, "no interface"],
      ["another sandbox", {
        ...json,
        interfaces: [hostEnd, { ...containerEnd, sandbox: other.path }],
      }, "doesn't match configured netns"],
      ["the same sandbox under another path", {
        ...json,
        interfaces: [hostEnd, { ...containerEnd, sandbox: alias }],
      }, undefined],
      ["a MAC in upper case", {
        ...json,
        interfaces: [hostEnd, {
          ...containerEnd,
          mac: containerEnd.mac.toUpperCase(),
        }],
      }, undefined],
      ["addresses of other interfaces", {
        ...json,
        interfaces: [...json.interfaces, {
          name: "eth1",
          sandbox: hosts.sandbox.path,
        }],
        ips: [...json.ips, { address: "192.0.2.1/24", interface: 2 }],
        routes: [...json.routes, { dst: "198.51.100.0/24", gw: "192.0.2.9" }],
      }, undefined],
    ];
  for (const [name, prevResult, text] of rows) {
    await t.step(name, async () => {
      const checked = await hosts.run("ptp", "CHECK", {
        ...config,
        prevResult,
      });
      if (text === undefined) assertSuccess(checked);
      else {
        assertEquals(checked.exitCode, 1);
        assertStringIncludes(checked.stdout, text);
      }
    });
  }
});

Deno.test(
  requireRoot("ptp.del() removes everything, whatever is left to find it by"),
  async (t) => {
    const plainFile = (hosts: TestHosts): string => {
      const path = `${hosts.folder}/plain`;
      Deno.writeTextFileSync(path, "");
      return path;
    };
    const fifo = (hosts: TestHosts): string => {
      runIn(hosts.host, "mkfifo", `${hosts.folder}/fifo`);
      return `${hosts.folder}/fifo`;
    };
    const rows: [name: string, netnsOf: (hosts: TestHosts) => string][] = [
      ["the sandbox's path", (hosts) => hosts.sandbox.path],
      ["no CNI_NETNS", () => ""],
      ["a path that is not there", () => "/run/netns/never-made"],
      ["a process that has ended", () => "/proc/4194304/ns/net"],
      ["the plain file that a reboot leaves", plainFile],
      ["a link that leads to itself", (hosts) => {
        Deno.symlinkSync(`${hosts.folder}/loop`, `${hosts.folder}/loop`);
        return `${hosts.folder}/loop`;
      }],
      ["a FIFO that nobody writes to", fifo],
    ];
    for (const [name, netnsOf] of rows) {
      await t.step(name, async () => {
        using hosts = TestHosts.create();
        const before = [snapshot(hosts.host), snapshot(hosts.sandbox)];
        const config = dualStack(hosts);
        assertSuccess(await hosts.run("ptp", "ADD", config));
        const env = { CNI_NETNS: netnsOf(hosts) };
        assertSuccess(await hosts.run("ptp", "DEL", config, { env }));
        assertEquals([snapshot(hosts.host), snapshot(hosts.sandbox)], before);
        assertEquals(hosts.leases(), []);
        assertSuccess(await hosts.run("ptp", "DEL", config, { env }));
      });
    }
  },
);

Deno.test(
  requireRoot("ptp.del() leaves interfaces of others alone"),
  async (t) => {
    await t.step(
      "of another attachment, after an ADD that it made fail",
      async () => {
        using hosts = TestHosts.create();
        const config = dualStack(hosts);
        assertSuccess(await hosts.run("ptp", "ADD", config));
        const before = [snapshot(hosts.host), snapshot(hosts.sandbox)];
        const other = { ...config, name: "net2" };
        assertFailure(await hosts.run("ptp", "ADD", other), 4, '"eth0"');
        assertSuccess(await hosts.run("ptp", "DEL", other));
        assertEquals([snapshot(hosts.host), snapshot(hosts.sandbox)], before);
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
    await t.step("the Go plugin's, unless prevResult names it", async () => {
      using hosts = TestHosts.create();
      withVeth(hosts, hosts.host, "veth12345678");
      const config = dualStack(hosts);
      assertSuccess(await hosts.run("ptp", "DEL", config));
      assertEquals(ipJson(hosts.sandbox, "link").length, 2);
      const interfaces = [
        { name: "veth12345678" },
        { name: "eth0", sandbox: hosts.sandbox.path },
      ];
      const prevResult = { cniVersion: "1.1.0", interfaces };
      assertSuccess(await hosts.run("ptp", "DEL", { ...config, prevResult }));
      assertEquals(ipJson(hosts.sandbox, "link").length, 1);
    });
  },
);

Deno.test(
  requireRoot(
    "ptp.add() leaves an attachment its lease when it is called for another sandbox",
  ),
  async () => {
    using hosts = TestHosts.create();
    const config = dualStack(hosts);
    assertSuccess(await hosts.run("ptp", "ADD", config));
    const before = [snapshot(hosts.host), snapshot(hosts.sandbox)];
    const leases = hosts.leases();
    const sandbox = hosts.addNetns();
    assertFailure(
      await hosts.run("ptp", "ADD", config, { sandbox }),
      999,
      "duplicate allocation is not allowed",
    );
    assertEquals([snapshot(hosts.host), snapshot(hosts.sandbox)], before);
    assertEquals(hosts.leases(), leases);
  },
);

Deno.test(
  requireRoot("ptp.add() succeeds once when it is called many times at once"),
  async () => {
    using hosts = TestHosts.create();
    const { config } = withFakeIpam(hosts, {
      ips: [{ address: "10.0.0.2/24", gateway: "10.0.0.1" }],
    });
    const calls = [1, 2, 3, 4].map(() => hosts.run("ptp", "ADD", config));
    const codes = (await Promise.all(calls)).map(({ exitCode, json }) =>
      exitCode === 0 ? 0 : json.code
    );
    assertEquals(codes.sort(), [0, 4, 4, 4]);
    assert(canPing(hosts.sandbox, "10.0.0.1"));
    assertSuccess(await hosts.run("ptp", "DEL", config));
  },
);

Deno.test(
  requireRoot("ptp.gc() deletes what is of attachments that are not valid"),
  async () => {
    using hosts = TestHosts.create();
    const config = dualStack(hosts);
    const add = async (containerId: string, name: string): Promise<NetNs> => {
      const sandbox = hosts.addNetns();
      const call = { sandbox, containerId };
      assertSuccess(await hosts.run("ptp", "ADD", { ...config, name }, call));
      return sandbox;
    };
    const kept = await add("kept", "net1");
    const stale = await add("stale", "net1");
    const other = await add("stale", "net2");
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
  },
);

Deno.test(
  requireRoot("ptp.add() refuses a route with a number that has no room"),
  async (t) => {
    const rows: [key: string, value: number][] = [
      ["table", -5],
      ["table", 0x1_0000_0000],
      ["scope", 300],
      ["priority", -1],
      ["mtu", 0x1_0000_0000],
    ];
    for (const [key, value] of rows) {
      await t.step(`${key} ${value}`, async () => {
        using hosts = TestHosts.create();
        const before = [snapshot(hosts.host), snapshot(hosts.sandbox)];
        const config = dualStack(hosts);
        const routes = [{ dst: "10.9.0.0/16", [key]: value }];
        const ipam = { ...config.ipam, routes };
        const added = await hosts.run("ptp", "ADD", { ...config, ipam });
        assertFailure(added, 999, "Cannot add route 10.9.0.0/16");
        assertEquals([snapshot(hosts.host), snapshot(hosts.sandbox)], before);
        assertEquals(hosts.leases(), []);
      });
    }
  },
);

Deno.test(
  requireRoot("ptp.add() refuses a name that the kernel would change"),
  async () => {
    using hosts = TestHosts.create();
    const call = { ifName: "eth%d" };
    const added = await hosts.run("ptp", "ADD", dualStack(hosts), call);
    assertFailure(added, 4, 'Cannot add interface "eth%d"');
    assertEquals(hosts.leases(), []);
  },
);

Deno.test(
  requireRoot("ptp.del() succeeds where nothing was added"),
  async () => {
    using hosts = TestHosts.create();
    assertSuccess(await hosts.run("ptp", "DEL", dualStack(hosts)));
    assertEquals(hosts.leases(), []);
  },
);

Deno.test(
  requireRoot(
    "ptp.del() does not touch the host's interfaces when CNI_NETNS has become the host's",
  ),
  async () => {
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
  },
);

Deno.test(
  requireRoot(
    "ptp.del() deletes the interface although the IPAM plugin fails, and says so",
  ),
  async () => {
    using hosts = TestHosts.create();
    const ipam = writeFakeIpam(hosts.path, {
      ADD: {
        stdout: { ips: [{ address: "10.0.0.2/24", gateway: "10.0.0.1" }] },
      },
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
  },
);

Deno.test(
  requireRoot("ptp.del() succeeds with a configuration that ADD would refuse"),
  async () => {
    using hosts = TestHosts.create();
    const config = dualStack(hosts);
    assertSuccess(await hosts.run("ptp", "ADD", config));
    const deleted = await hosts.run("ptp", "DEL", { ...config, mtu: "1500" });
    assertEquals(deleted.exitCode, 0, deleted.stdout);
    assertStringIncludes(deleted.stderr, "mtu");
    assertEquals(hosts.leases(), []);
  },
);

Deno.test(
  requireRoot("ptp.add() replaces the host's end that a lost tear-down left"),
  async () => {
    using hosts = TestHosts.create();
    const config = dualStack(hosts);
    const added = await hosts.run("ptp", "ADD", config);
    assertSuccess(added);
    // The sandbox was made anew, the old one is still held by someone, and the
    // lease was released by other means.
    Deno.removeSync(`${hosts.folder}/leases`, { recursive: true });
    const again = await hosts.run("ptp", "ADD", config, {
      sandbox: hosts.addNetns(),
    });
    assertSuccess(again);
    assertEquals(again.json.interfaces[0].name, added.json.interfaces[0].name);
    assert(canPing(hosts.host, "10.1.2.2"));
    using sandbox = Rtnl.open(hosts.sandbox.path);
    assertEquals(sandbox.link.find("eth0"), undefined);
  },
);

Deno.test(
  requireRoot(
    "ptp.add() refuses a CNI_NETNS that is no namespace to attach to",
  ),
  async (t) => {
    const rows: [
      name: string,
      netnsOf: (hosts: TestHosts) => string,
      text: string,
    ][] = [
      [
        "not there",
        () => "/run/netns/never-made",
        "Cannot open network namespace",
      ],
      [
        "a plain file",
        (hosts) => hosts.folder + "/bin/ptp",
        "Cannot open network namespace",
      ],
      [
        "a namespace of another kind",
        () => "/proc/self/ns/uts",
        "Cannot open network namespace",
      ],
      ["the host's own", (hosts) => hosts.host.path, "should not be the same"],
    ];
    for (const [name, netnsOf, text] of rows) {
      await t.step(name, async () => {
        using hosts = TestHosts.create();
        const env = { CNI_NETNS: netnsOf(hosts) };
        const added = await hosts.run("ptp", "ADD", dualStack(hosts), { env });
        assertFailure(added, 8, text);
        assertEquals(hosts.leases(), []);
      });
    }
  },
);

Deno.test(
  requireRoot("ptp passes STATUS and GC on to the IPAM plugin"),
  async (t) => {
    for (const command of ["STATUS", "GC"]) {
      await t.step(command, async () => {
        using hosts = TestHosts.create();
        const { config, calls } = withFakeIpam(hosts, {});
        assertSuccess(await hosts.run("ptp", command, config));
        assertEquals(calls(), [command]);
      });
    }
    await t.step("STATUS relays code 50", async () => {
      using hosts = TestHosts.create();
      const ipam = writeFakeIpam(hosts.path, {
        STATUS: { stdout: { code: 50, msg: "no addresses" }, exitCode: 1 },
      });
      const config = { ...dualStack(hosts), ipam: { type: ipam.type } };
      const status = await hosts.run("ptp", "STATUS", config);
      assertFailure(status, 50, "no addresses");
    });
  },
);
