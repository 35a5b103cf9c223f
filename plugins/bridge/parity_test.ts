/**
 * bridge  compared with the Go plugin: what each leaves in the namespaces on
 * the same configuration. The differences that are meant are listed here, and
 * nowhere else is a difference allowed.
 */

import { assert, assertEquals } from "@std/assert";
import type { NetNs } from "../../ffi/netns.ts";
import { isAtLeast } from "../../cni/version.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { canPing, ipJson, linkNames, runIn } from "../../testing/ip_json.ts";
import {
  ASKED_MAC,
  listPeers,
  nameOf,
  normaliseResult,
  observeNetns,
  succeedAs,
  testLeavesTheSame,
  type Who,
} from "../../tests/_harness/parity.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { needsRuleTools } from "../../tests/_harness/rules.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import {
  type CallOptions,
  type CallOutput,
  TestHosts,
} from "../../testing/test_hosts.ts";

/** Runs either plugin. */
function run(
  who: Who,
  hosts: TestHosts,
  [command, config]: readonly [command: string, config: Keys],
  options: CallOptions = {},
): Promise<CallOutput> {
  return succeedAs(who, hosts, { type: "bridge", command, config }, options);
}

const V4 = "10.1.2.0/24", V6 = "2001:db8:1::/64";

/** An IPAM configuration with one address and any gateway. */
function staticIpam(gateway: string): Keys {
  return { type: "static", addresses: [{ address: "10.1.2.2/24", gateway }] };
}

/** Configurations, by what is particular about them. */
const ROWS: [string, string[], Keys, { dst: string; gw?: string }[]?][] = [
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
    runtimeConfig: { mac: ASKED_MAC },
  }],
  ["the container as its own gateway", [], {
    ipam: staticIpam("10.1.2.2"),
  }],
  ["dns", [V4], { dns: { nameservers: ["10.1.2.3"], search: ["a.test"] } }],
];

function configFor(
  hosts: TestHosts,
  [, subnets, extras, routes = []]: typeof ROWS[number],
): Keys {
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

for (const peer of listPeers("bridge")) {
  for (const row of ROWS) {
    testLeavesTheSame(peer, ["bridge", row[0]], async (who) => {
      using hosts = TestHosts.create();
      const { stdout } = await run(who, hosts, ["ADD", configFor(hosts, row)]);
      return {
        result: normaliseResult(stdout, hosts),
        host: await observeNetns(hosts.host),
        sandbox: await observeNetns(hosts.sandbox),
        sysctls: sysctlsOf(hosts),
      };
    });
  }

  rootTest(
    `bridge and the Go plugin add the same rules (${peer.name})`,
    needsRuleTools,
    async (t) => {
      /** Lists rules in the same order and with the same names. */
      const listed = (text: string): string[] =>
        text.split("\n").map((line) =>
          line.replace(/veth[0-9a-f]+/, "VETH")
            .replace(/([0-9a-f]{2}:){5}[0-9a-f]{2}/, "MAC").trim()
        ).filter((line) => line !== "");
      const rows: [name: string, extras: Keys, list: string[]][] = [
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
            await run(who, hosts, ["ADD", config]);
            return listed(runIn(hosts.host, program, ...args));
          };
          assertEquals(await rules("ours"), await rules(peer));
        });
      }
    },
  );

  rootTest(
    `bridge and the Go plugin share a bridge (${peer.name})`,
    async () => {
      using hosts = TestHosts.create();
      const config = configFor(hosts, ["", [V4, V6], {
        isDefaultGateway: true,
      }]);
      const attach = async (who: Who, containerId: string): Promise<NetNs> => {
        const sandbox = hosts.addNetns();
        await run(who, hosts, ["ADD", config], { sandbox, containerId });
        return sandbox;
      };
      const mac = (): string =>
        ipJson(hosts.host, "link", "show", "br0")[0].address;
      await attach(peer, "a");
      const before = mac();
      const second = await attach("ours", "b");
      await attach(peer, "c");
      assertEquals(mac(), before);
      const addresses = ["10.1.2.2", "10.1.2.4", "2001:db8:1::2", "10.1.2.1"];
      for (const address of addresses) {
        assert(canPing(second, address), address);
      }
    },
  );

  // What Go does since 1.10.
  if (!isAtLeast(peer.cniVersion, "1.1.0")) continue;

  rootTest(
    `bridge without ipam: each checks and deletes what the other added (${peer.name})`,
    async () => {
      for (const [adder, other] of [["ours", peer], [peer, "ours"]] as const) {
        using hosts = TestHosts.create();
        const config = configFor(hosts, ["a switch", [], {}]);
        const { json } = await run(adder, hosts, ["ADD", config]);
        for (const command of ["CHECK", "DEL"]) {
          const after = { ...config, prevResult: json };
          await run(other, hosts, [command, after]);
        }
        assertEquals(linkNames(hosts.sandbox), ["lo"]);
      }
    },
  );

  rootTest(
    `bridge pins the MAC of an existing bridge, as the Go plugin does (${peer.name})`,
    async (t) => {
      const rows: [name: string, ...commands: string[]][] = [
        ["without an address"],
        ["with the gateway's address", "address add 10.1.2.1/24 dev br0"],
        [
          "that lost its MAC with its last port",
          "address add 10.1.2.1/24 dev br0",
          "link add v0 type veth peer v1",
          "link set v0 master br0",
          "link delete v0",
        ],
      ];
      await eachRow(t, rows, async ([, ...commands]) => {
        for (const who of ["ours", peer] as const) {
          using hosts = TestHosts.create();
          const ip = (command: string): string =>
            runIn(hosts.host, "ip", ...command.split(" "));
          ip("link add br0 type bridge");
          for (const command of commands) ip(command);
          const row: typeof ROWS[number] = ["", [V4], { isGateway: true }];
          const { json } = await run(who, hosts, [
            "ADD",
            configFor(hosts, row),
          ]);
          const mac = (): string =>
            ipJson(hosts.host, "link", "show", "br0")[0].address;
          assertEquals(json.interfaces[0].mac, mac(), nameOf(who));
          // A bridge takes the lowest MAC of its ports, unless its own is fixed.
          ip("link add v2 type veth peer v3");
          ip("link set v2 address 02:00:00:00:00:01 master br0");
          assertEquals(json.interfaces[0].mac, mac(), nameOf(who));
        }
      });
    },
  );

  rootTest(
    `bridge keeps the host's neighbour entries, which the Go plugin loses (${peer.name})`,
    async () => {
      for (const [who, kept] of [["ours", 1], [peer, 0]] as const) {
        using hosts = TestHosts.create();
        const row: typeof ROWS[number] = ["", [V4], { isGateway: true }];
        const config = configFor(hosts, row);
        const neighbours = (): string[] =>
          ipJson(hosts.host, "-4", "neigh", "show", "dev", "br0");
        for (const containerId of ["a", "b"]) {
          const sandbox = hosts.addNetns();
          await run(who, hosts, ["ADD", config], { sandbox, containerId });
          if (containerId === "b") break;
          runIn(hosts.host, "ping", "-c1", "-W5", "10.1.2.2");
          assertEquals(neighbours().length, 1);
        }
        assertEquals(neighbours().length, kept, nameOf(who));
      }
    },
  );
}
