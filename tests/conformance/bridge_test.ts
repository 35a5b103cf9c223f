/** What runtimes count on of bridge, in every version of the specification. */

import {
  assert,
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertStringIncludes,
} from "@std/assert";
import { isAtLeast, SPEC_VERSIONS } from "../../cni/version.ts";
import type { NetNs } from "../../ffi/netns.ts";
import {
  bridgeConfig,
  needsBridgeVlans,
  switchConfig,
} from "../../plugins/bridge/testing/bridge_network.ts";
import { allOf, needsRoot } from "../../testing/capabilities.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { writeFakeIpam } from "../_harness/fake_ipam.ts";
import { canPing, ipJson, linkNames, runIn } from "../../testing/ip_json.ts";
import { type Keys, PluginScene } from "../_harness/plugin_scene.ts";
import {
  needsInetRules,
  needsIptables,
  needsRuleTools,
  rulesOf,
} from "../_harness/rules.ts";
import type { CallOutput, TestHosts } from "../../testing/test_hosts.ts";

type Json = CallOutput["json"];

const V4 = "10.1.2.0/24", V6 = "2001:db8:42::/64", V6_TOO = "2001:db8:43::/64";
const DNS = {
  nameservers: ["10.1.2.3"],
  domain: "some.domain.test",
  search: ["search.test"],
  options: ["option1:foo"],
};

/** A temporary host on which one configuration is used. */
class Bench extends PluginScene {
  constructor(makeConfig: (hosts: TestHosts) => Keys) {
    super("bridge", makeConfig);
  }

  /** Runs CHECK and DEL, if the version has them, and checks what remains. */
  async finish(prevResult: Json): Promise<void> {
    const { cniVersion } = this.config;
    if (isAtLeast(`${cniVersion}`, "0.4.0")) {
      await this.succeed("CHECK", { prevResult });
    } else {
      const refusal = [1, "config version does not allow CHECK"] as const;
      await this.fail("CHECK", refusal, { prevResult });
    }
    await this.succeed("DEL", { prevResult });
    assertEquals(linkNames(this.hosts.sandbox), ["lo"]);
    const names = linkNames(this.hosts.host);
    assertEquals(names.filter((name) => /^veth/.test(name)), []);
    assertEquals(this.hosts.leases(), []);
    assert(names.includes("br0"), "the bridge is gone");
  }

  /** Runs all commands. */
  async roundTrip(
    assertAdded: (json: Json, hosts: TestHosts) => void,
  ): Promise<void> {
    if (isAtLeast(`${this.config["cniVersion"]}`, "1.1.0")) {
      await this.succeed("STATUS");
    }
    const { json } = await this.succeed("ADD");
    assertAdded(json, this.hosts);
    await this.finish(json);
  }
}

// deno-lint-ignore no-explicit-any -- as iproute2 prints it
function show(netns: NetNs, name: string): any {
  return ipJson(netns, "address", "show", "dev", name)[0];
}

/** Returns the links of a namespace, by name. */
function linksOf(netns: NetNs): Json {
  const links = ipJson(netns, "address", "show");
  return Object.fromEntries(links.map((link: Json) => [link.ifname, link]));
}

function globalAddressesOf(netns: NetNs, name: string): string[] {
  return globalAmong(show(netns, name));
}

function globalAmong({ addr_info }: Json): string[] {
  return addr_info
    .filter(({ scope }: Keys) => scope === "global")
    .map(({ local, prefixlen }: Keys) => `${local}/${prefixlen}`).sort();
}

/** Builds a row of one attachment with a bridge that is the gateway. */
function asGateway(
  cniVersion: string,
  subnets: readonly string[],
  assertAdded: (json: Json, hosts: TestHosts) => void,
  extras: Keys = {},
): Row {
  return async () => {
    using bench = new Bench((hosts) =>
      bridgeConfig(hosts, {
        cniVersion,
        ipam: hosts.hostLocal(...subnets),
        ...extras,
      })
    );
    await bench.roundTrip(assertAdded);
  };
}

/** Asserts what there is after an ADD with these subnets. */
function assertGateway(
  cniVersion: string,
  subnets: readonly string[],
): (json: Json, hosts: TestHosts) => void {
  return (json, { host, sandbox }) => {
    const gateways = subnets.map((subnet) =>
      subnet.replace(/(0|::)\//, (_, end) => `${end === "0" ? "" : "::"}1/`)
    );
    const links = { host: linksOf(host), sandbox: linksOf(sandbox) };
    assertEquals(globalAmong(links.host["br0"]), [...gateways].sort());
    assertEquals(Object.keys(links.host).length, 3);
    const own = globalAmong(links.sandbox["eth0"]);
    assertEquals(own.length, subnets.length);
    for (const gateway of gateways) {
      assert(canPing(sandbox, gateway.replace(/\/.*/, "")), gateway);
    }
    const families = new Set(
      subnets.map((subnet) => subnet.includes(":") ? "-6" : "-4"),
    );
    for (const family of families) {
      const [route] = ipJson(sandbox, family, "route", "show", "default");
      const isFirst = (text: string): boolean =>
        text.includes(":") === (family === "-6");
      assertEquals(route.gateway, gateways.find(isFirst)?.replace(/\/.*/, ""));
      assertEquals(route.prefsrc, undefined);
    }
    if (isAtLeast(cniVersion, "0.3.0")) {
      assertInterfaces(json, links, sandbox.path);
    } else {
      const addresses = [json.ip4?.ip, json.ip6?.ip].filter(Boolean).sort();
      assertEquals(addresses, own);
    }
  };
}

function assertInterfaces(
  { interfaces, ips }: Json,
  links: Readonly<Record<"host" | "sandbox", Json>>,
  path: string,
): void {
  assertEquals(interfaces.length, 3);
  const [bridge, hostEnd, containerEnd] = interfaces;
  assertEquals(bridge, { name: "br0", mac: links.host["br0"].address });
  assertMatch(hostEnd.name, /^veth/);
  const { address } = links.host[hostEnd.name];
  assertEquals(hostEnd, { name: hostEnd.name, mac: address });
  assertEquals(containerEnd, {
    name: "eth0",
    mac: links.sandbox["eth0"].address,
    sandbox: path,
  });
  assertNotEquals(bridge.mac, hostEnd.mac);
  assertEquals(ips.map((ip: Keys) => ip["interface"]), ips.map(() => 2));
}

/** Builds a row of an attachment to a switch. */
function asSwitch(
  extras: Keys,
  assertAdded: (json: Json, hosts: TestHosts) => void,
): Row {
  return async () => {
    using bench = new Bench(() => switchConfig(extras));
    await bench.roundTrip(assertAdded);
  };
}

/** Rows for each version, by the version's place in their names. */
const EACH: Readonly<Record<string, (cniVersion: string) => Row>> = {
  "BR-1 creates the bridge": (cniVersion) =>
    asGateway(cniVersion, [V4], (_, { host }) => {
      const { linkinfo, promiscuity, mtu, flags } = show(host, "br0");
      assertEquals([linkinfo.info_kind, promiscuity, mtu], ["bridge", 0, 5000]);
      assert(flags.includes("UP"));
    }, { mtu: 5000 }),
  "BR-2 reuses the bridge that is there": (cniVersion) => async () => {
    using bench = new Bench((hosts) =>
      bridgeConfig(hosts, { cniVersion, ipam: hosts.hostLocal(V4) })
    );
    runIn(bench.hosts.host, "ip", "link", "add", "br0", "type", "bridge");
    const { ifindex } = show(bench.hosts.host, "br0");
    await bench.roundTrip((_, { host }) =>
      assertEquals(show(host, "br0").ifindex, ifindex)
    );
  },
  "BR-3 gateway and default route, IPv4": (cniVersion) =>
    asGateway(cniVersion, [V4], assertGateway(cniVersion, [V4])),
  "BR-3 gateway and default route, IPv6": (cniVersion) =>
    asGateway(cniVersion, [V6], assertGateway(cniVersion, [V6])),
  "BR-3 gateway and default route, both families": (cniVersion) =>
    asGateway(cniVersion, [V4, V6], assertGateway(cniVersion, [V4, V6])),
  "BR-3 gateway and default route, three subnets": (cniVersion) => {
    const subnets = [V4, V6, V6_TOO];
    if (isAtLeast(cniVersion, "0.3.0")) {
      return asGateway(cniVersion, subnets, assertGateway(cniVersion, subnets));
    }
    return async () => {
      using bench = new Bench((hosts) =>
        bridgeConfig(hosts, { cniVersion, ipam: hosts.hostLocal(...subnets) })
      );
      await bench.fail("ADD", [
        7,
        "does not support more than 1 address per family",
      ]);
      assertEquals(linkNames(bench.hosts.sandbox), ["lo"]);
    };
  },
  "BR-3 the IPAM plugin's dns is passed on": (cniVersion) => async () => {
    const resolvConf = await Deno.makeTempFile();
    try {
      await Deno.writeTextFile(
        resolvConf,
        "nameserver 10.1.2.3\ndomain some.domain.test\nsearch search.test\noptions option1:foo\n",
      );
      using bench = new Bench((hosts) =>
        bridgeConfig(hosts, {
          cniVersion,
          ipam: { ...hosts.hostLocal(V4), resolvConf },
        })
      );
      await bench.roundTrip(({ dns }) => assertEquals(dns, DNS));
    } finally {
      await Deno.remove(resolvConf);
    }
  },
  "BR-4 a switch without addresses": (cniVersion) => {
    if (isAtLeast(cniVersion, "0.3.0")) {
      return asSwitch({ cniVersion }, ({ interfaces }, { host, sandbox }) => {
        assertEquals(interfaces.length, 3);
        assertEquals(globalAddressesOf(host, "br0"), []);
        assert(show(sandbox, "eth0").flags.includes("UP"));
      });
    }
    return async () => {
      using bench = new Bench(() => switchConfig({ cniVersion }));
      await bench.fail("ADD", [1, "cannot convert: no valid IP addresses"]);
      assertEquals(linkNames(bench.hosts.sandbox), ["lo"]);
    };
  },
  "BR-10 DEL without ADD succeeds": (cniVersion) => async () => {
    using bench = new Bench((hosts) =>
      bridgeConfig(hosts, { cniVersion, ipMasq: true, macspoofchk: true })
    );
    assertEquals((await bench.succeed("DEL")).json, undefined);
  },
  "BR-12 promiscuous mode": (cniVersion) =>
    asGateway(cniVersion, [V4], (_, { host }) => {
      assertEquals(show(host, "br0").promiscuity, 1);
    }, { promiscMode: true }),
  "BR-13 the bridge keeps its MAC": (cniVersion) => async () => {
    using bench = new Bench((hosts) => bridgeConfig(hosts, { cniVersion }));
    const { hosts } = bench;
    const { json: first } = await bench.succeed("ADD");
    const { address } = show(hosts.host, "br0");
    const options = { sandbox: hosts.addNetns(), containerId: "second" };
    // The lowest MAC: a bridge without its own MAC would take it.
    const env = { CNI_ARGS: "IgnoreUnknown=1;MAC=02:00:00:00:00:01" };
    await bench.succeed("ADD", {}, { ...options, env });
    assertEquals(show(hosts.host, "br0").address, address);
    await bench.succeed("DEL", {}, options);
    assertEquals(show(hosts.host, "br0").address, address);
    await bench.succeed("DEL", { prevResult: first });
    assertEquals(show(hosts.host, "br0").address, address);
  },
  "BR-14 the MAC that is asked for": (cniVersion) => async () => {
    const macs = [
      "c2:11:22:33:44:01",
      "c2:11:22:33:44:02",
      "c2:11:22:33:44:03",
    ];
    const [byArgs, byConfig, byRuntime] = macs;
    const extras: Keys[] = [
      {},
      { args: { cni: { mac: byConfig } } },
      { args: { cni: { mac: byConfig } }, runtimeConfig: { mac: byRuntime } },
    ];
    for (const [position, more] of extras.entries()) {
      using bench = new Bench((hosts) =>
        bridgeConfig(hosts, { cniVersion, ...more })
      );
      await bench.succeed("ADD", {}, {
        env: { CNI_ARGS: `IgnoreUnknown=1;MAC=${byArgs}` },
      });
      assertEquals(show(bench.hosts.sandbox, "eth0").address, macs[position]);
    }
  },
  "BR-15 an ADD that fails after IPAM releases the address":
    (cniVersion) => async () => {
      using bench = new Bench((hosts) => bridgeConfig(hosts, { cniVersion }));
      const { hosts } = bench;
      runIn(hosts.host, "ip", "link", "add", "br0", "type", "bridge");
      runIn(hosts.host, "ip", "addr", "add", "10.77.0.1/24", "dev", "br0");
      await bench.fail("ADD", [
        7,
        '"br0" already has an IP address different from',
      ]);
      assertEquals(hosts.leases(), []);
      assertEquals(linkNames(hosts.sandbox), ["lo"]);
    },
  "BR-21 isolation of the port": (cniVersion) => async (t) => {
    for (const portIsolation of [true, false]) {
      const extras = { portIsolation };
      await asGateway(cniVersion, [V4], (_, { host }) => {
        const port = linkNames(host).find((name) => name.startsWith("veth"));
        const { isolated } = show(host, port ?? "").linkinfo.info_slave_data;
        assertEquals(isolated, portIsolation);
      }, extras)(t);
    }
  },
};

/** Rows for each version with lists in results. */
const EACH_WITH_LISTS: Readonly<Record<string, (cniVersion: string) => Row>> = {
  "BR-17 ADD, CHECK and DEL": (cniVersion) => async (t) => {
    for (const subnets of [[V4], [V6], [V4, V6]]) {
      const assertAdded = assertGateway(cniVersion, subnets);
      await asGateway(cniVersion, subnets, assertAdded)(t);
    }
  },
  "BR-20 the container's interface stays down": (cniVersion) =>
    asSwitch({ cniVersion, disableContainerInterface: true }, (_, hosts) => {
      assert(!show(hosts.sandbox, "eth0").flags.includes("UP"));
    }),
};

/** Rows for each version that need programs to look at the rules. */
const EACH_WITH_RULES: Readonly<Record<string, (cniVersion: string) => Row>> = {
  "BR-16 masquerade by the default backend": (cniVersion) =>
    masqueraded(cniVersion, {}),
  "BR-16 masquerade by nftables": (cniVersion) =>
    masqueraded(cniVersion, { ipMasqBackend: "nftables" }),
};

/** Rows with rules of iptables. */
const EACH_BY_IPTABLES: Readonly<
  Record<string, (cniVersion: string) => Row>
> = {
  "BR-16 masquerade by iptables": (cniVersion) =>
    masqueraded(cniVersion, { ipMasqBackend: "iptables" }),
};

/** Rows with rules that need no nftables for IPv4 and IPv6. */
const EACH_WITHOUT_INET: Readonly<
  Record<string, (cniVersion: string) => Row>
> = {
  "BR-18 a look at senders": (cniVersion) => async () => {
    using bench = new Bench((hosts) =>
      bridgeConfig(hosts, { cniVersion, macspoofchk: true })
    );
    const { host } = bench.hosts;
    const rulesIn = (chain: string): number => {
      const list = ["-j", "list", "chain", "bridge", "nat", chain];
      const { nftables } = JSON.parse(runIn(host, "nft", ...list));
      return nftables.filter(({ rule }: Keys) => rule !== undefined).length;
    };
    const chain = "cni-br-iface-test-container-eth0";
    await bench.roundTrip(() => {
      assertEquals(["PREROUTING", chain, `${chain}-mac`].map(rulesIn), [
        1,
        1,
        2,
      ]);
    });
    assertEquals(rulesIn("PREROUTING"), 0);
    assert(!runIn(host, "nft", "list", "ruleset").includes("cni-br-iface"));
  },
};

function masqueraded(cniVersion: string, extras: Keys): Row {
  return async () => {
    using bench = new Bench((hosts) =>
      bridgeConfig(hosts, { cniVersion, ipMasq: true, ...extras })
    );
    const { host } = bench.hosts;
    const rules = (): string => rulesOf(host).join("\n");
    await bench.roundTrip((_, { sandbox }) => {
      const [own = ""] = globalAddressesOf(sandbox, "eth0");
      assertStringIncludes(rules(), own.replace(/\/.*/, ""));
    });
    assertEquals(/10\.1\.2\.2\b.*/.exec(rules()), null);
  };
}

/** Rows that do not depend on the version. */
const ONCE: Readonly<Record<string, Row>> = {
  "BR-11 a second IPv4 address of the bridge, only by force": () =>
    asSecond("10.9.0.0/24", ["10.1.2.1/24"], { forced: ["10.9.0.1/24"] }),
  "BR-11 an overlapping IPv6 subnet, only by force": () =>
    asSecond("2001:db8:42::/48", ["2001:db8:42::5/64"], {
      forced: ["2001:db8:42::1/48"],
    }),
  "BR-11 IPv6 subnets that do not overlap are kept": () =>
    asSecond("2001:db8:43::/64", ["2001:db8:42::1/64"], {
      unforced: ["2001:db8:42::1/64", "2001:db8:43::1/64"],
      forced: ["2001:db8:42::1/64", "2001:db8:43::1/64"],
    }),
  "BR-11 link-local addresses do not count": async () => {
    using bench = new Bench((hosts) => {
      const ips = [{ address: "fe80::5/64", gateway: "fe80::1" }];
      const { type } = writeFakeIpam(hosts.path, { ADD: { stdout: { ips } } });
      return bridgeConfig(hosts, { ipam: { type } });
    });
    const { host } = bench.hosts;
    runIn(host, "ip", "link", "add", "br0", "type", "bridge");
    runIn(host, "ip", "link", "set", "br0", "up");
    runIn(host, "ip", "addr", "add", "fe80::77/64", "dev", "br0");
    await bench.succeed("ADD");
    const locals = show(host, "br0").addr_info.map(({ local }: Keys) => local);
    for (const address of ["fe80::1", "fe80::77"]) {
      assert(locals.includes(address), `${locals}`);
    }
  },
  "BR-19 ipam and disableContainerInterface exclude each other": () =>
    refused(
      { disableContainerInterface: true },
      "cannot use IPAM when DisableContainerInterface flag is set",
    ),
  "BR-22 refuses invalid VLANs": async () => {
    for (const vlan of [-100, 5000]) {
      await refused(
        { vlan },
        `invalid VLAN ID ${vlan} (must be between 0 and 4094)`,
      );
    }
    using bench = new Bench((hosts) => bridgeConfig(hosts, { vlan: 0 }));
    await bench.roundTrip(() => {});
  },
  "BR-23 accepts an empty trunk": async () => {
    using bench = new Bench((hosts) => bridgeConfig(hosts, { vlanTrunk: [] }));
    await bench.roundTrip(() => {});
  },
  "BR-23 refuses invalid trunks": async () => {
    const missing = (key: string): string =>
      `minID and maxID should be configured simultaneously, ${key} is missing`;
    const rows: [item: Keys, text: string][] = [
      [{ minID: 100 }, missing("maxID")],
      [{ maxID: 100 }, missing("minID")],
      [{ minID: 0, maxID: 10 }, "incorrect trunk minID parameter"],
      [{ minID: 1, maxID: 4095 }, "incorrect trunk maxID parameter"],
      [{ id: 4095 }, "incorrect trunk id parameter"],
      [
        { minID: 20, maxID: 10 },
        "minID is greater than maxID in trunk parameter",
      ],
    ];
    for (const [item, text] of rows) await refused({ vlanTrunk: [item] }, text);
  },
};

/** Asserts that a configuration is refused before anything is made. */
async function refused(extras: Keys, text: string): Promise<void> {
  using bench = new Bench((hosts) => bridgeConfig(hosts, extras));
  await bench.fail("ADD", [7, text]);
  assertEquals(linkNames(bench.hosts.host), ["lo"]);
  assertEquals(bench.hosts.leases(), []);
}

/**
 * Attaches to a bridge that has addresses, without force and by force.
 *
 * @param unforced What the bridge has then; undefined if it is refused
 */
async function asSecond(
  subnet: string,
  present: readonly string[],
  { unforced, forced }: { unforced?: string[]; forced: string[] },
): Promise<void> {
  for (const forceAddress of [false, true]) {
    using bench = new Bench((hosts) =>
      bridgeConfig(hosts, { ipam: hosts.hostLocal(subnet), forceAddress })
    );
    const { host } = bench.hosts;
    runIn(host, "ip", "link", "add", "br0", "type", "bridge");
    for (const address of present) {
      runIn(host, "ip", "addr", "add", address, "dev", "br0", "nodad");
    }
    const want = forceAddress ? forced : unforced;
    if (want === undefined) {
      await bench.fail("ADD", [
        7,
        '"br0" already has an IP address different from',
      ]);
    } else await bench.succeed("ADD");
    assertEquals(globalAddressesOf(host, "br0"), [...want ?? present].sort());
  }
}

/** Lists the VLANs of the container's port, as `100 PVID,Egress Untagged`. */
function vlansOf({ host }: TestHosts): string[] {
  const text = runIn(host, "bridge", "-j", "-compressvlans", "vlan", "show");
  const port = JSON.parse(text).find(({ ifname }: { ifname: string }) =>
    /^veth[0-9a-f]{11}$/.test(ifname)
  );
  return port.vlans.map((
    { vlan, vlanEnd, flags = [] }: {
      vlan: number;
      vlanEnd?: number;
      flags?: string[];
    },
  ) => [vlanEnd ? `${vlan}-${vlanEnd}` : `${vlan}`, ...flags].join(" "));
}

const ACCESS = "100 PVID Egress Untagged", NATIVE = "1 PVID Egress Untagged";
const TRUNK = [{ id: 101 }, { minID: 200, maxID: 210 }];

/** Rows that need a kernel with VLANs, in the versions that have results for them. */
const EACH_WITH_VLANS: Readonly<Record<string, (cniVersion: string) => Row>> = {
  "BR-5 a switch with a VLAN": (cniVersion) =>
    withVlans({ cniVersion, vlan: 100 }, [ACCESS]),
  "BR-6 a trunk": (cniVersion) =>
    withVlans({ cniVersion, vlanTrunk: TRUNK }, [NATIVE, "101", "200-210"]),
  "BR-7 a VLAN and a trunk": (cniVersion) =>
    withVlans({ cniVersion, vlan: 100, vlanTrunk: TRUNK }, [
      ACCESS,
      "101",
      "200-210",
    ]),
  "BR-8 the default VLAN preserved or not": (cniVersion) => async (t) => {
    await withVlans({ cniVersion, vlan: 100, preserveDefaultVlan: false }, [
      ACCESS,
    ])(t);
    await withVlans({ cniVersion, vlan: 100, preserveDefaultVlan: true }, [
      "1 Egress Untagged",
      ACCESS,
    ])(t);
  },
  "BR-9 the gateway in a VLAN": (cniVersion) => async () => {
    for (const preserveDefaultVlan of [false, true]) {
      using bench = new Bench((hosts) =>
        bridgeConfig(hosts, {
          cniVersion,
          vlan: 100,
          preserveDefaultVlan,
          ipam: hosts.hostLocal(V4),
        })
      );
      const { host, sandbox } = bench.hosts;
      const { json } = await bench.succeed("ADD");
      assertEquals(json.interfaces.length, 4);
      assertEquals(json.interfaces[3], {
        name: "br0.100",
        mac: show(host, "br0.100").address,
      });
      assertEquals(linkNames(host).length, 5);
      assertEquals(globalAddressesOf(host, "br0.100"), ["10.1.2.1/24"]);
      assertEquals(globalAddressesOf(host, "br0"), []);
      assert(canPing(sandbox, "10.1.2.1"));
    }
  },
};

function withVlans(extras: Keys, want: readonly string[]): Row {
  return asSwitch(extras, (_, hosts) => assertEquals(vlansOf(hosts), want));
}

/** Creates the rows of one version. */
function rowsFor(
  each: Readonly<Record<string, (cniVersion: string) => Row>>,
  cniVersion: string,
): Record<string, Row> {
  return Object.fromEntries(
    Object.entries(each).map((
      [name, row],
    ) => [`${name}, ${cniVersion}`, row(cniVersion)]),
  );
}

const needsTools = allOf(needsRuleTools, needsRoot);
const needsInet = allOf(needsInetRules, needsTools);
const needsTables = allOf(needsIptables(), needsTools);

conformance("bridge", ONCE, needsRoot);
for (const cniVersion of SPEC_VERSIONS) {
  conformance("bridge", rowsFor(EACH, cniVersion), needsRoot);
  conformance("bridge", rowsFor(EACH_WITH_RULES, cniVersion), needsInet);
  conformance("bridge", rowsFor(EACH_BY_IPTABLES, cniVersion), needsTables);
  conformance("bridge", rowsFor(EACH_WITHOUT_INET, cniVersion), needsTools);
  if (!isAtLeast(cniVersion, "0.3.0")) continue;
  conformance("bridge", rowsFor(EACH_WITH_LISTS, cniVersion), needsRoot);
  const rows = rowsFor(EACH_WITH_VLANS, cniVersion);
  conformance("bridge", rows, allOf(needsBridgeVlans, needsRoot));
}
