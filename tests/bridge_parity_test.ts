/**
 * bridge beside the Go plugin: what each leaves in the namespaces on the same
 * configuration. The differences that are meant are listed here, and nowhere
 * else is a difference allowed.
 */

import { assert, assertEquals } from "@std/assert";
import type { NetNs } from "../ffi/netns.ts";
import {
  goPlugin,
  hasCommand,
  ignoreUnless,
  requireRoot,
} from "./_harness/capabilities.ts";
import { ipJson, runIn } from "./_harness/ip_json.ts";
import { type CallOutput, TestHosts } from "./_harness/test_hosts.ts";

const GO = (goPlugin("bridge") ?? "").replace(/\/[^/]*$/, "");
const needsGo = ignoreUnless(GO !== "", "needs the Go plugins");
const needsTools = ignoreUnless(
  hasCommand("nft") && hasCommand("iptables"),
  "needs nft and iptables",
);

function parity(
  name: string,
  needs: { ignore: boolean; suffix: string } = { ignore: false, suffix: "" },
): { name: string; ignore: boolean } {
  const root = requireRoot(name + needsGo.suffix + needs.suffix);
  return {
    name: root.name,
    ignore: root.ignore || needsGo.ignore || needs.ignore,
  };
}

type Config = Record<string, unknown>;
type Who = "ours" | "go";

/** Runs either plugin. */
async function run(
  who: Who,
  hosts: TestHosts,
  command: string,
  config: Config,
): Promise<CallOutput> {
  const env = { CNI_PATH: GO };
  const output = who === "ours"
    ? await hosts.run("bridge", command, config)
    : hosts.exec(`${GO}/bridge`, command, config, { env });
  assertEquals(output.exitCode, 0, output.stdout + output.stderr);
  return output;
}

const V4 = "10.1.2.0/24", V6 = "2001:db8:1::/64";

/** Configurations, by what is particular about them. */
const ROWS: [
  name: string,
  subnets: string[],
  extras: Config,
  routes?: { dst: string; gw?: string }[],
][] = [
  ["a switch", [], {}],
  ["a switch with addresses", [V4], {}],
  ["IPv4", [V4], { isGateway: true }, [{ dst: "0.0.0.0/0" }]],
  ["IPv6", [V6], { isGateway: true }, [{ dst: "::/0" }]],
  ["both families", [V4, V6], { isGateway: true }, [{ dst: "0.0.0.0/0" }, {
    dst: "::/0",
  }]],
  ["the default gateway", [V4, V6], { isDefaultGateway: true, mtu: 1400 }],
  ["two IPv6 subnets", [V4, V6, "2001:db8:2::/64"], { isDefaultGateway: true }],
  ["several routes", [V4], { isGateway: true }, [
    { dst: "192.168.0.0/16" },
    { dst: "1.2.3.4/32" },
    { dst: "172.16.0.0/12", gw: "10.1.2.77" },
  ]],
  ["hairpin mode", [V4], { isGateway: true, hairpinMode: true }],
  ["promiscuous mode", [V4], { isGateway: true, promiscMode: true }],
  ["a MAC", [V4], {
    isGateway: true,
    runtimeConfig: { mac: "c2:11:22:33:44:55" },
  }],
  ["dns", [V4], { dns: { nameservers: ["10.1.2.3"], search: ["a.test"] } }],
];

function configFor(
  hosts: TestHosts,
  [, subnets, extras, routes = []]: typeof ROWS[number],
): Config {
  const ipam = subnets.length === 0
    ? {}
    : { ...hosts.hostLocal(...subnets), routes };
  return {
    cniVersion: "1.0.0",
    name: "net1",
    type: "bridge",
    bridge: "br0",
    ipam,
    ...extras,
  };
}

/** What a plugin did, without what differs from one run to the next. */
async function observe(
  who: Who,
  hosts: TestHosts,
  config: Config,
): Promise<unknown> {
  const { stdout } = await run(who, hosts, "ADD", config);
  return {
    result: withoutEmptyDns(
      stdout.replaceAll(hosts.sandbox.path, "SANDBOX")
        .replace(/(?!c2:11)([0-9a-f]{2}:){5}[0-9a-f]{2}/g, "MAC")
        .replace(/veth[0-9a-f]+/g, "VETH"),
    ),
    host: stateOf(hosts.host),
    sandbox: stateOf(hosts.sandbox),
    sysctls: sysctlsOf(hosts),
  };
}

/** Go plugins before 1.2 print `dns` though it is empty. */
function withoutEmptyDns(stdout: string): unknown {
  const { dns, ...result } = JSON.parse(stdout);
  return Object.keys(dns ?? {}).length === 0 ? result : { dns, ...result };
}

function stateOf(netns: NetNs): unknown {
  return { links: linksOf(netns), routes: routesOf(netns) };
}

/**
 * Links with their addresses.
 *
 * A difference that is meant: our IPv6 addresses have `nodad`.
 */
function linksOf(netns: NetNs): unknown[] {
  // deno-lint-ignore no-explicit-any -- as iproute2 prints it
  return ipJson(netns, "address").filter(({ ifname }: any) => ifname !== "lo")
    // deno-lint-ignore no-explicit-any -- as above
    .map((link: any) => ({
      name: link.ifname.replace(/^veth.*/, "VETH"),
      mtu: link.mtu,
      kind: link.linkinfo.info_kind,
      flags: ["UP", "PROMISC"].filter((flag) => link.flags.includes(flag)),
      state: link.operstate,
      master: link.master,
      hairpin: link.linkinfo.info_slave_data?.hairpin,
      isOperators: link.address.startsWith("c2:11"),
      addresses: link.addr_info
        .filter(({ scope }: { scope: string }) => scope === "global")
        .map(({ local, prefixlen, broadcast }: Record<string, unknown>) =>
          `${local}/${prefixlen} ${broadcast}`
        ).sort(),
    }));
}

/** Routes of the main table, but the link-local ones. */
function routesOf(netns: NetNs): string[] {
  // deno-lint-ignore no-explicit-any -- as iproute2 prints it
  const format = (route: any): string =>
    [
      route.dst,
      route.gateway && `via ${route.gateway}`,
      `dev ${route.dev.replace(/^veth.*/, "VETH")}`,
      `scope ${route.scope}`,
      `protocol ${route.protocol}`,
      route.prefsrc && `src ${route.prefsrc}`,
      route.metric && `metric ${route.metric}`,
    ].filter(Boolean).join(" ");
  return [...ipJson(netns, "-4", "route"), ...ipJson(netns, "-6", "route")]
    .map(format).filter((route) => !route.startsWith("fe80::")).sort();
}

function sysctlsOf({ host }: TestHosts): string[] {
  const keys = [
    "ipv4.ip_forward",
    "ipv6.conf.all.forwarding",
    "ipv6.conf.br0.accept_ra",
  ];
  return keys.map((key) =>
    `${key} ${runIn(host, "sysctl", "-n", `net.${key}`).trim()}`
  );
}

for (const row of ROWS) {
  Deno.test(
    parity(`bridge leaves what the Go plugin leaves: ${row[0]}`),
    async () => {
      const stateAfter = async (who: Who): Promise<unknown> => {
        using hosts = TestHosts.create();
        return await observe(who, hosts, configFor(hosts, row));
      };
      assertEquals(await stateAfter("ours"), await stateAfter("go"));
    },
  );
}

/** Lists the rules of a host that are an attachment's. */
function rulesOf({ host }: TestHosts): string[] {
  const text = runIn(host, "nft", "list", "ruleset") +
    runIn(host, "iptables-save") + runIn(host, "ip6tables-save");
  return text.split("\n").filter((line) => /test-container|CNI-/.test(line));
}

Deno.test(
  parity("bridge and the Go plugin detach what the other attached", needsTools),
  async (t) => {
    const extras: [name: string, extras: Config][] = [
      ["plain", { isDefaultGateway: true }],
      ["masqueraded by iptables", {
        isDefaultGateway: true,
        ipMasq: true,
        ipMasqBackend: "iptables",
      }],
      ["with a look at senders", { isGateway: true, macspoofchk: true }],
      ["in hairpin mode", { isGateway: true, hairpinMode: true }],
    ];
    for (const [name, more] of extras) {
      for (
        const [adder, deleter] of [["ours", "go"], ["go", "ours"]] as const
      ) {
        await t.step(
          `${name}: ${adder} adds, ${deleter} checks and deletes`,
          async () => {
            using hosts = TestHosts.create();
            const config = configFor(hosts, [name, [V4, V6], more]);
            const { json } = await run(adder, hosts, "ADD", config);
            const withResult = { ...config, prevResult: json };
            await run(deleter, hosts, "CHECK", withResult);
            await run(deleter, hosts, "DEL", withResult);
            const names = [hosts.host, hosts.sandbox].flatMap((netns) =>
              ipJson(netns, "link").map(({ ifname }: { ifname: string }) =>
                ifname
              )
            );
            assertEquals(names, ["lo", "br0", "lo"]);
            assertEquals([hosts.leases(), rulesOf(hosts)], [[], []]);
          },
        );
      }
    }
  },
);

Deno.test(
  parity("bridge and the Go plugin make the same rules", needsTools),
  async (t) => {
    /** Lists rules in the same order and with the same names. */
    const listed = (text: string): string[] =>
      text.split("\n").map((line) =>
        line.replace(/veth[0-9a-f]+/, "VETH")
          .replace(/([0-9a-f]{2}:){5}[0-9a-f]{2}/, "MAC").trim()
      ).filter((line) => line !== "");
    const rows: [name: string, extras: Config, list: string[]][] = [
      ["against spoofing", { macspoofchk: true }, [
        "nft",
        "list",
        "table",
        "bridge",
        "nat",
      ]],
      ["of masquerading", { ipMasq: true, ipMasqBackend: "iptables" }, [
        "sh",
        "-c",
        "iptables-save -t nat | grep ^-A",
      ]],
    ];
    for (const [name, extras, [program = "", ...args]] of rows) {
      await t.step(name, async () => {
        const rules = async (who: Who): Promise<string[]> => {
          using hosts = TestHosts.create();
          const config = configFor(hosts, [name, [V4], {
            isGateway: true,
            ...extras,
          }]);
          await run(who, hosts, "ADD", config);
          return listed(runIn(hosts.host, program, ...args));
        };
        assertEquals(await rules("ours"), await rules("go"));
      });
    }
  },
);

Deno.test(
  parity("bridge and the Go plugin share a bridge"),
  async () => {
    using hosts = TestHosts.create();
    const config = configFor(hosts, ["", [V4, V6], { isDefaultGateway: true }]);
    const attach = async (who: Who, containerId: string): Promise<NetNs> => {
      const sandbox = hosts.addNetns();
      const options = { sandbox, containerId };
      const env = { CNI_PATH: GO };
      const output = who === "ours"
        ? await hosts.run("bridge", "ADD", config, options)
        : hosts.exec(`${GO}/bridge`, "ADD", config, { ...options, env });
      assertEquals(output.exitCode, 0, output.stdout);
      return sandbox;
    };
    const mac = (): string =>
      ipJson(hosts.host, "link", "show", "br0")[0].address;
    await attach("go", "a");
    const before = mac();
    const second = await attach("ours", "b");
    await attach("go", "c");
    assertEquals(mac(), before);
    const addresses = ["10.1.2.2", "10.1.2.4", "2001:db8:1::2", "10.1.2.1"];
    for (const address of addresses) {
      assert(runIn(second, "ping", "-c1", "-W2", address), address);
    }
  },
);
